//! Modes of `chmod`: a number, or clauses such as `u+x,go-w`.

use std::str::FromStr;

/// A change of permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Absolute(u32),
    Clauses(Vec<Clause>),
}

/// Clause of a symbolic mode: classes, operator and permissions, as letters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Clause {
    /// Mask of the affected bits, including special bits.
    who: u32,
    how: char,
    what: String,
}

/// Bits of user, group and others, each with its special bit.
const USER: u32 = 0o4700;
const GROUP: u32 = 0o2070;
const OTHERS: u32 = 0o1007;

impl FromStr for Permissions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            let number = u32::from_str_radix(text, 8).ok().filter(|&mode| mode <= 0o7777);
            return number
                .map(|mode| Self(Kind::Absolute(mode)))
                .ok_or_else(|| format!("{text:?} is no octal number up to 7777"));
        }
        let clauses = text.split(',').map(clause).collect::<Option<Vec<_>>>();
        clauses.map(|clauses| Self(Kind::Clauses(clauses))).ok_or_else(|| {
            format!("{text:?} is neither an octal number nor clauses such as u+x,go-w (u g o a, + - =, r w x X s t)")
        })
    }
}

fn clause(text: &str) -> Option<Clause> {
    let at = text.find(['+', '-', '='])?;
    let (who, rest) = text.split_at(at);
    let mut letters = rest.chars();
    let how = letters.next()?;
    let what: String = letters.collect();
    if !what.chars().all(|letter| "rwxXst".contains(letter)) {
        return None;
    }
    let who = who.chars().try_fold(0, |bits, letter| {
        Some(
            bits | match letter {
                'u' => USER,
                'g' => GROUP,
                'o' => OTHERS,
                'a' => USER | GROUP | OTHERS,
                _ => return None,
            },
        )
    })?;
    Some(Clause { who: if who == 0 { USER | GROUP | OTHERS } else { who }, how, what })
}

impl Permissions {
    /// Permissions of a file after the change.
    #[must_use]
    pub fn apply(&self, permissions: u32, is_directory: bool) -> u32 {
        match &self.0 {
            Kind::Absolute(mode) => *mode,
            Kind::Clauses(clauses) => {
                clauses.iter().fold(permissions & 0o7777, |mode, clause| clause.apply(mode, is_directory))
            }
        }
    }
}

impl Clause {
    fn apply(&self, mode: u32, is_directory: bool) -> u32 {
        let bits = self.what.chars().fold(0, |bits, letter| {
            bits | match letter {
                'r' => 0o444,
                'w' => 0o222,
                'x' => 0o111,
                'X' if is_directory || mode & 0o111 != 0 => 0o111,
                's' => 0o6000,
                't' => 0o1000,
                _ => 0,
            }
        });
        let bits = bits & self.who;
        match self.how {
            '+' => mode | bits,
            '-' => mode & !bits,
            _ => mode & !self.who | bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str, mode: u32, is_directory: bool) -> u32 {
        text.parse::<Permissions>().unwrap().apply(mode, is_directory)
    }

    #[test]
    fn permissions_are_those_of_chmod() {
        assert_eq!(changed("0755", 0o4600, false), 0o755);
        assert_eq!(changed("u+x,go-w", 0o666, false), 0o744);
        assert_eq!(changed("a=r", 0o4777, false), 0o444);
        assert_eq!(changed("+X", 0o644, false), 0o644);
        assert_eq!(changed("+X", 0o644, true), 0o755);
        assert_eq!(changed("u+s,+t", 0o755, true), 0o5755);
        assert_eq!(changed("go=", 0o777, false), 0o700);
        for wrong in ["", "8", "77777", "u", "u+q", "z+x", "u+x,"] {
            assert!(wrong.parse::<Permissions>().is_err(), "{wrong:?}");
        }
    }
}
