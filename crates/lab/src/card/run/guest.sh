# Runs the filesystems and workloads of $IN/plan on the card, and writes marks into the sector behind the card's end:
# whoever serves the card takes them out of the requests, and starts a new card with each run.
marks=$(cat "$IN/marks")
clients=$(cat "$IN/clients")
# Anything when power will be lost after each run: some of the files are enough then.
cuts=$(cat "$IN/cuts")
to_create=300
[ -z "$cuts" ] || to_create=100
for module in virtio_blk ext4 crc32c_generic crc32c f2fs nilfs2 nls_cp437 nls_iso8859-1 nls_ascii nls_utf8 vfat exfat btrfs xfs reiserfs; do
  modprobe "$module" 2>/dev/null
done
# QEMU's first two drives are the guest's input and output; User Mode Linux has the card alone.
drive=/dev/vdc
[ -b $drive ] || drive=/dev/vda
[ -b $drive ] || exit 3
part=${drive}1
# mkfs.nilfs2 looks there for what is mounted.
[ -e /etc/mtab ] || ln -s /proc/self/mounts /etc/mtab

# While a partition is mounted, what is written to the whole drive may stay in the page cache until it is told to leave.
put_mark() { echo "$*" | dd of=$drive bs=512 seek="$marks" count=1 conv=sync,notrunc oflag=direct 2>/dev/null; }

mark() {
  put_mark "$@" || exit 3
  blockdev --flushbufs $drive || exit 3
}

# What a program said last stands behind the phase in which it failed; a mark has 512 bytes.
# Not how much dd has copied.
last_words() { grep -v -e ' records ' -e ' copied' /tmp/said | tail -n 3 | tr -s -c '!-~' ' ' | tail -c 400; }

failed() {
  mark failed "$1" "$(last_words)"
  return 1
}

# Makes a filesystem; $2 is no where it must not discard what was on the card.
make() {
  keep=
  [ "$2" = no ] && keep=-K
  case $1 in
    # Tables of inodes that the kernel writes later would count as the workload's.
    ext4) mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0${keep:+,nodiscard} $part ;;
    # With -q it does not say why it fails.
    f2fs) mkfs.f2fs -f ${keep:+-t 0} $part ;;
    nilfs2) mkfs.nilfs2 -q -f $keep $part ;;
    vfat) mkfs.vfat -F 32 -s 64 $part ;;
    exfat) mkfs.exfat $part ;;
    btrfs) mkfs.btrfs -q -f $keep $part ;;
    xfs) mkfs.xfs -q -f $keep $part ;;
    # It never discards.
    reiserfs) mkreiserfs -q -f -f $part ;;
  esac
}

# Options of mount for a filesystem and its discards. FAT and exFAT discard only when they are told to.
mount_options() {
  case $1-$2 in
    *-yes) echo "-o discard" ;;
    vfat-no | exfat-no | reiserfs-no | *-default) ;;
    *-no) echo "-o nodiscard" ;;
  esac
}

# NILFS2 has no checker: it is sound when it mounts again and everything can be read.
check() {
  case $1 in
    ext4) fsck.ext4 -f -n $part ;;
    f2fs) fsck.f2fs --dry-run $part ;;
    nilfs2) mount -i -t nilfs2 -o ro $part /mnt && find /mnt -type f -exec cat {} + >/dev/null && umount /mnt ;;
    vfat) fsck.vfat -n $part ;;
    exfat) fsck.exfat -n $part ;;
    btrfs) btrfs check $part ;;
    xfs) xfs_repair -n $part ;;
    reiserfs) reiserfsck --check --yes --quiet $part ;;
  esac
}

space() { df -k /mnt | awk 'END { print $4 }'; }

# An aged filesystem: a file that stays and one of 64 KiB that goes, in turn, until there is no room. What is free in the end is holes of 64 KiB, spread
# evenly, as files that come and go leave them.
fill_aged() {
  stays=$((64 * fill / (100 - fill)))
  hole=$(head -c 65536 /dev/zero | tr '\000' x)
  reserve=$(($(space) / 100 + stays))
  pair=0
  while [ "$(space)" -gt $reserve ]; do
    folder=/mnt/aged/$((pair / 64))
    end=$((pair + 64))
    mkdir -p $folder || return
    while [ $pair -lt $end ]; do
      { dd if=/dev/zero of=$folder/stays$pair bs=$((stays * 1024)) count=1 && printf %s "$hole" >$folder/goes$pair; } 2>/dev/null || break 2
      pair=$((pair + 1))
    done
  done
  sync
  rm -f /mnt/aged/*/goes*
  sync
}

fill() {
  if [ "$aged" = aged ] && [ "$fill" != 0 ]; then fill_aged; return; fi
  free=$(space)
  mebibytes=$((free * fill / 100 / 1024))
  [ "$mebibytes" = 0 ] || dd if=/dev/zero of=/mnt/filler bs=1M count="$mebibytes" || return
  sync
}

# The cleaner with the settings of its package, but that it looks each second, not every 5 to 60: a workload takes minutes here. It wants a place for its
# semaphores.
start_cleaner() {
  printf '%s\n' 'min_clean_segments 10%' 'max_clean_segments 20%' 'clean_check_interval 1' 'selection_policy timestamp' 'nsegments_per_clean 2' \
    'mc_nsegments_per_clean 4' 'cleaning_interval 1' 'mc_cleaning_interval 1' 'retry_interval 1' 'min_reclaimable_blocks 10%' 'mc_min_reclaimable_blocks 1%' \
    use_set_suinfo use_mmap 'log_priority info' >/tmp/cleaner.conf
  [ -d /dev/shm ] || { mkdir /dev/shm && mount -t tmpfs none /dev/shm; } || return
  nilfs_cleanerd -c /tmp/cleaner.conf -p "$1" $part /mnt >/tmp/cleaner || return
  # It says its number when it has begun to work.
  tries=0
  while [ ! -s /tmp/cleaner ] && [ $tries -lt 50 ]; do
    sleep 0.2
    tries=$((tries + 1))
  done
  cleaner=$(tr -dc 0-9 </tmp/cleaner)
  kill -0 "$cleaner"
}

stop_cleaner() {
  kill "$cleaner" || { echo "the cleaner has died" >&2; return 1; }
  while kill -0 "$cleaner" 2>/dev/null; do sleep 0.1; done
}

# PostMark does not look whether its writes succeed.
watch_space() {
  while [ ! -e /tmp/watched ]; do
    [ "$(stat -f -c %f /mnt)" -ge 16 ] || : >/tmp/full
    sleep 1
  done
}

is_full() {
  [ -e /tmp/full ] || grep -q 'No space left' /tmp/said || ! dd if=/dev/zero of=/mnt/probe bs=64k count=1 conv=fsync 2>/dev/null
}

# Runs a function once for each client, all at the same time, with the number of the client.
each_client() {
  running=
  client=1
  while [ $client -le "$clients" ]; do
    "$1" $client &
    running="$running $!"
    client=$((client + 1))
  done
  failures=0
  for process in $running; do wait "$process" || failures=$((failures + 1)); done
  [ $failures = 0 ]
}

# Each workload says how many files it made; PostMark ends with a sync, as it measures the page cache otherwise.
postmark_client() {
  mkdir "/mnt/client$1" || return
  printf '%s\n' "set location /mnt/client$1" 'set number 2000' 'set transactions 2000' 'set read 32768' 'set write 32768' "set seed $((41 + $1))" run quit >"/tmp/postmark$1.conf"
  postmark "/tmp/postmark$1.conf" >"/tmp/postmark$1.out" 2>"/tmp/postmark$1.err" && [ ! -s "/tmp/postmark$1.err" ] && return
  # It goes on after an error, and counts what has failed as done.
  echo "$(grep -c '^Error' "/tmp/postmark$1.err") operations failed, the first: $(head -n 1 "/tmp/postmark$1.err")" >&2
  return 1
}

postmark_() {
  each_client postmark_client
  status=$?
  sync || return
  files=$(awk '$2 == "created" && !seen[FILENAME]++ { sum += $1 } END { print sum }' /tmp/postmark*.out)
  files=$((files - $(cat /tmp/postmark*.err | grep -c "^Error: cannot open .* for writing")))
  return $status
}

# dbench 4.00 begins its file again until its time has passed: a last line that must fail ends it, so that every filesystem does the same work.
# PostMark with each write on the card before the next: a tenth of the files, as each takes many requests.
postmark_sync() {
  mount -o remount,sync /mnt && mkdir /mnt/client1 || return
  printf '%s\n' 'set location /mnt/client1' 'set number 200' 'set transactions 200' 'set read 32768' 'set write 32768' 'set seed 42' run quit >/tmp/postmark1.conf
  postmark /tmp/postmark1.conf >/tmp/postmark1.out 2>/tmp/postmark1.err && [ ! -s /tmp/postmark1.err ] || return
  files=$(awk '$2 == "created" { print $1; exit }' /tmp/postmark1.out)
}

dbench_() {
  cp "$IN/client.txt" /tmp/client.txt
  printf '%s\n' 'Unlink "\clients\client1\end-of-load" NT_STATUS_OK' >>/tmp/client.txt
  dbench --loadfile /tmp/client.txt --directory /mnt -t 3600 "$clients" >/tmp/dbench.out 2>&1
  grep -q 'end-of-load failed' /tmp/dbench.out || { cat /tmp/dbench.out >&2; return 1; }
  sync
  files=$((clients * $(grep -c '^NTCreateX' /tmp/client.txt)))
}

create_client() {
  # FAT does not sync a directory with a file in it.
  mkdir "/mnt/client$1" && { [ -z "$cuts" ] || sync; } || return
  made=0
  while [ $made -lt $to_create ]; do
    file=client$1/file$made
    { echo "$file"; cat /tmp/script; } >/tmp/content$1
    dd if=/tmp/content$1 of="/mnt/$file" bs=4096 count=1 conv=fsync 2>/tmp/dd.out || { cat /tmp/dd.out >&2; return 1; }
    if [ -n "$cuts" ]; then
      (cd /mnt && md5sum "$file") >>/tmp/synced && put_mark synced || return
    fi
    made=$((made + 1))
  done
}

create() {
  each_client create_client
  status=$?
  files=$(find /mnt/client* -type f -size +0 | wc -l)
  return $status
}

# A build of small C files: sources are written, synced, read and compiled, and the objects linked into one.
kernel_build() {
  files=0
  mkdir /mnt/src || return
  while [ $files -lt 150 ]; do
    {
      echo "struct record { int key; long value[4]; };"
      i=0
      while [ $i -lt 40 ]; do
        echo "long step_${files}_$i(struct record *r, int n) { long s = $i; while (n--) s += r[n].key * r[n].value[n & 3]; return s; }"
        i=$((i + 1))
      done
    } >/mnt/src/part$files.c || return
    files=$((files + 1))
  done
  sync
  echo 3 >/proc/sys/vm/drop_caches
  for source in /mnt/src/*.c; do tcc -c -o "${source%.c}.o" "$source" || return; done
  tcc -r -o /mnt/src/built-in.o /mnt/src/part*.o || return
  sync
  files=$((files * 2 + 1))
}

# Workloads of boards that are in use. What each stands for, and where its numbers come from, is in docs/cards.md.

# A number below $1; the same in each run.
seed=42
below() {
  seed=$(((seed * 1103515245 + 12345) % 2147483648))
  below=$((seed / 65536 % $1))
}

# Writes $2 bytes at $3 times that in a file, and syncs it.
put_at() { head -c "$2" /tmp/noise | dd of="$1" bs="$2" seek="$3" count=1 conv=notrunc,fsync 2>/tmp/dd.out || { cat /tmp/dd.out >&2; return 1; }; }

noise() { [ -s /tmp/noise ] || dd if=/dev/urandom of=/tmp/noise bs=64k count=16 2>/dev/null; }

# A journal of 8 MiB: each sync writes what was appended, an entry of the hash table, and the header.
journald() {
  noise && mkdir -p /mnt/var/log/journal && journal=/mnt/var/log/journal/system.journal || return
  dd if=/dev/zero of=$journal bs=1M count=8 conv=fsync 2>/dev/null || return
  entry=0
  while [ $entry -lt 200 ]; do
    below 64
    head -c 4096 /tmp/noise | dd of=$journal bs=4096 seek=$((1 + below)) count=1 conv=notrunc 2>/dev/null || return
    head -c 16384 /tmp/noise | dd of=$journal bs=16384 seek=$((20 + entry)) count=1 conv=notrunc 2>/dev/null || return
    put_at $journal 4096 0 || return
    entry=$((entry + 1))
  done
  files=1
}

# Transactions of three pages with a rollback journal: the old pages and the header are synced, then the new pages, then the journal is removed.
sqlite() {
  noise && base=/mnt/base.db && dd if=/dev/zero of=$base bs=1M count=16 conv=fsync 2>/dev/null || return
  transaction=0
  while [ $transaction -lt 150 ]; do
    put_at $base-journal 12800 0 && put_at $base-journal 512 0 || return
    for _ in 1 2; do
      below 4096
      head -c 4096 /tmp/noise | dd of=$base bs=4096 seek=$below count=1 conv=notrunc 2>/dev/null || return
    done
    put_at $base 4096 0 && rm $base-journal || return
    transaction=$((transaction + 1))
  done
  files=1
}

# Pages of a swap file of 64 MiB, written in clusters of eight at any place, and read again.
swap() {
  noise && dd if=/dev/zero of=/mnt/swapfile bs=1M count=64 conv=fsync 2>/dev/null || return
  page=0
  while [ $page -lt 400 ]; do
    below 2048
    head -c 32768 /tmp/noise | dd of=/mnt/swapfile bs=32768 seek=$below count=1 conv=notrunc,fsync 2>/dev/null || return
    page=$((page + 1))
  done
  files=1
}

# Segments of 8 MiB of a camera, 5 of which are kept: the oldest is removed when one is full. Each 2 MiB are synced.
camera() {
  noise && mkdir /mnt/video || return
  files=0
  while [ $files -lt 12 ]; do
    part=0
    while [ $part -lt 4 ]; do
      cat /tmp/noise /tmp/noise | dd of=/mnt/video/$files.mp4 bs=2M iflag=fullblock seek=$part count=1 conv=notrunc,fsync 2>/dev/null || return
      part=$((part + 1))
    done
    files=$((files + 1))
    rm -f /mnt/video/$((files - 5)).mp4
  done
}

# Logs in RAM that are copied to the card once in an hour: each file that has grown is written anew beside the old one, and takes its name.
log2ram() {
  noise && mkdir -p /mnt/var/log || return
  files=0
  hour=1
  while [ $hour -le 12 ]; do
    for log in 1 2 3 4 5 6 7 8 9 10 11 12; do
      head -c $((hour * log * 4096)) /tmp/noise >/mnt/var/log/.$log.new && mv /mnt/var/log/.$log.new /mnt/var/log/$log || return
      files=$((files + 1))
    done
    sync
    hour=$((hour + 1))
  done
}

# Four layers of an image, each a tree of small files that is synced when it is unpacked; then a container copies files up and changes them.
docker() {
  noise && files=0 || return
  for layer in 1 2 3 4; do
    for folder in 1 2 3 4 5 6 7 8; do
      mkdir -p /mnt/overlay2/$layer/diff/$folder || return
      name=0
      while [ $name -lt 25 ]; do
        below 9
        head -c $((512 << below)) /tmp/noise >/mnt/overlay2/$layer/diff/$folder/$name || return
        files=$((files + 1))
        name=$((name + 1))
      done
    done
    sync
  done
  mkdir -p /mnt/overlay2/work /mnt/overlay2/upper || return
  name=0
  while [ $name -lt 25 ]; do
    for folder in 1 2; do
      cp /mnt/overlay2/1/diff/$folder/$name /mnt/overlay2/work/$folder-$name || return
      put_at /mnt/overlay2/work/$folder-$name 512 0 && mv /mnt/overlay2/work/$folder-$name /mnt/overlay2/upper/ || return
      files=$((files + 1))
    done
    name=$((name + 1))
  done
  sync
}

work() {
  files=0
  case $1 in
    postmark) postmark_ ;;
    postmark-sync) postmark_sync ;;
    dbench) dbench_ ;;
    create) create ;;
    kernel-build) kernel_build ;;
    journald | sqlite | swap | camera | log2ram | docker) $1 ;;
    fio) (cd /mnt && fio "$IN/workload" >"$OUT/fio.txt") ;;
    script) (cd /mnt && sh "$IN/workload") ;;
  esac
}

# What has no checker that repairs recovers when it is mounted. Status 1 when something was corrected.
recover() {
  case $1 in
    ext4) fsck.ext4 -f -y $part ;;
    f2fs) fsck.f2fs -a $part ;;
    vfat) fsck.vfat -a $part ;;
    exfat) fsck.exfat -y $part ;;
  esac
}

# Recovers from a loss of power and looks for the files that were synced before. $step is what failed.
recover_files() {
  step=fsck
  recover "$1"
  corrected=$?
  [ $corrected -le 1 ] || return
  step=mount
  mount -i -t "$1" $part /mnt || return
  step=files
  found=0
  (cd /mnt && head -n "$2" /tmp/synced | md5sum -c | grep -v ': OK$') && found=1
  umount /mnt && [ $found = 0 ] || return
  step=check
  check "$1"
}

lose_power() {
  mark phase recovery
  while mark cut; do
    blockdev --flushbufs $part
    echo 3 >/proc/sys/vm/drop_caches
    order=$(dd if=$drive bs=512 skip="$marks" count=1 iflag=direct 2>/dev/null | tr -d '\000')
    [ "${order% *}" = cut ] || return
    if recover_files "$1" "${order#* }" >/tmp/said 2>&1; then mark recovered $corrected; else mark lost "$step: $(last_words)"; fi
  done
}

one() {
  fill=$3
  aged=$5
  rm -f /tmp/full /tmp/watched
  : >/tmp/synced
  mark run "$1" "$2" "$fill" "$4" "$aged" "$6"
  mark phase mkfs
  make "$1" "$6" >/tmp/said 2>&1 || { failed mkfs; return; }
  mark phase mount
  # shellcheck disable=SC2046
  mount -i -t "$1" $(mount_options "$1" "$6") $part /mnt 2>/tmp/said || { failed mount; return; }
  if [ "$4" != off ]; then start_cleaner "$4" 2>/tmp/said || { failed cleaner; umount /mnt; return; }; fi
  mark phase fill
  fill 2>/tmp/said || { failed fill; umount /mnt; return; }
  echo 3 >/proc/sys/vm/drop_caches
  mark work
  failure=
  watch_space &
  watcher=$!
  work "$2" 2>/tmp/said || { echo "ended with status $?" >>/tmp/said; failure=workload; }
  : >/tmp/watched
  wait $watcher
  if [ -n "$failure" ] && is_full; then failure=full; fi
  mark phase umount
  if [ "$4" != off ]; then stop_cleaner 2>>/tmp/said || failure=cleaner; fi
  umount /mnt 2>>/tmp/said || failure=umount
  mark worked "${files:-0}"
  [ "$failure" != full ] || mark full "$(last_words)"
  [ -z "$failure" ] || [ "$failure" = full ] || { failed "$failure"; return; }
  echo 3 >/proc/sys/vm/drop_caches
  check "$1" >/tmp/said 2>&1 || { failed fsck; return; }
  [ -z "$cuts" ] || lose_power "$1"
  mark clean
}

# As little as boards with a card have for what is not written yet: PostMark deletes its files, and would write nothing else.
echo 4194304 >/proc/sys/vm/dirty_background_bytes
echo 8388608 >/proc/sys/vm/dirty_bytes
while read -r filesystem workload fill cleaner aged discard; do one "$filesystem" "$workload" "$fill" "$cleaner" "$aged" "$discard"; done <"$IN/plan"
exit 0
