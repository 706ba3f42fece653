# The project's commands. `just` lists them; `./test` is what decides.

default:
    @just --list

# everything a change must pass
test:
    ./test

# the slow campaigns, too: hours
test-all:
    ./test --all

# only the tests that Linux's kernel judges, in a guest
kernel:
    crates/host/guest/judge --prepare
    cargo test -p floatgate-cli --test kernel -- --ignored

# how many of 30 drawn faults the tests find: an hour on two idle cores
mutants:
    scripts/mutants

# benchmarks, side by side
bench:
    cargo bench

# one fuzz target for a minute: just fuzz sfdp; what it finds goes to fuzz/corpus, samples are its seeds
fuzz target seconds="60":
    cd fuzz && mkdir -p corpus/{{target}} && cargo +nightly fuzz run {{target}} corpus/{{target}} \
        $(ls -d ../crates/media/tests/samples/{{target}} 2>/dev/null) -- -max_total_time={{seconds}}

# rewrite golden files after an intended change, then read the diff
golden:
    UPDATE_GOLDEN=1 cargo test --workspace

# the pictures in docs/
pictures:
    scripts/pictures

# the packages of a release, in target/package
package:
    scripts/package

# the page of docs/web.md, in target/page
page:
    scripts/build-web

# the documentation as a site, in target/book
site:
    mdbook build
