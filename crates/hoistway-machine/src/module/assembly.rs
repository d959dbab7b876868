//! The core's assembly, made fit for a kernel.
//!
//! The compiler of a stable release has no flag for what a kernel asks of its code, and `core` and `alloc` come compiled.
//! So the text of everything (fat LTO) is rewritten, which needs no knowledge of Rust:
//!
//! | the compiler writes | the kernel wants | why |
//! |---|---|---|
//! | `ret` | `jmp __x86_return_thunk` | the kernel patches what stands there by the processor (Retbleed, SRSO) |
//! | `call *…`, `jmp *…` | a call of `__x86_indirect_thunk_REG` | retpolines; r11 is free at a call and at a tail call |
//! | `sym@GOTPCREL(%rip)` | `sym` | the module loader has no table of addresses |
//! | a function whose address is taken | `endbr64` in front | indirect branch tracking |
//! | `call hw_panic` | `ud2` behind | the checker of the kernel does not know that it does not return |
//!
//! Jump tables are in what came compiled only (`-C jump-tables=no`); the places they lead to are landing places as well. A vector
//! register or a frame above [`FRAME_LIMIT`] is an error: a kernel's stack has 16 KiB for everybody, and no vector registers.

use std::collections::BTreeSet;

/// The largest frame of a function, in bytes, with what it has pushed.
pub const FRAME_LIMIT: u64 = 2048;

/// Assembly for a kernel, and what was found in it.
#[derive(Clone, Debug, Default)]
pub struct Assembly {
    /// The text.
    pub text: String,
    /// Returns that have become jumps to the thunk.
    pub returns: usize,
    /// Indirect calls and jumps that go through a thunk.
    pub indirect: usize,
    /// Uses of a table of addresses that are none any more.
    pub addresses: usize,
    /// Functions whose address is taken.
    pub landing: usize,
    /// The largest frame, and whose it is.
    pub frame: (u64, String),
}

/// Rewrites it.
///
/// # Errors
///
/// A line that a kernel cannot have, with its number.
pub fn rewrite(source: &str) -> Result<Assembly, String> {
    // Data has labels as well, and addresses that are taken.
    let functions: BTreeSet<&str> = source.lines().filter_map(declared_function).collect();
    let taken = addresses_taken(source);
    let mut out = Assembly { text: String::with_capacity(source.len()), ..Assembly::default() };
    let mut frame = Frame::default();
    for (number, line) in source.lines().enumerate() {
        let at = |what: String| format!("line {}: {what}: {}", number + 1, line.trim());
        if let Some(label) = label(line) {
            frame = Frame { function: label.into(), ..Frame::default() };
            push(&mut out.text, line);
            if functions.contains(label) && taken.contains(label) {
                out.landing += 1;
                push(&mut out.text, "\tendbr64");
            }
            continue;
        }
        // Code that a table of `core` leads to, which came compiled.
        if let Some(place) = line.strip_suffix(':').filter(|place| place.starts_with(".LBB")) {
            push(&mut out.text, line);
            if taken.contains(place) {
                out.landing += 1;
                push(&mut out.text, "\tendbr64");
            }
            continue;
        }
        // Lines for debuggers and unwinders, which the kernel's own tool makes.
        if [".file\t", ".loc\t", ".cfi_"].iter().any(|word| line.trim_start().starts_with(word)) {
            continue;
        }
        let Some(code) = instruction(line) else {
            push(&mut out.text, line);
            continue;
        };
        check(code).map_err(at)?;
        frame.see(code);
        if frame.largest > FRAME_LIMIT {
            let (bytes, function) = (frame.largest, &frame.function);
            return Err(format!(
                "line {}: {function} has a frame of {bytes} bytes; {FRAME_LIMIT} are the most",
                number + 1
            ));
        }
        if frame.largest > out.frame.0 {
            out.frame = (frame.largest, frame.function.clone());
        }
        convert(code, line, &mut out).map_err(at)?;
    }
    Ok(out)
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// The name of which a line says that it is a function's.
fn declared_function(line: &str) -> Option<&str> {
    line.strip_prefix("\t.type\t")?.strip_suffix(",@function")
}

/// The name of a function, or of data, that begins with this line.
fn label(line: &str) -> Option<&str> {
    let label = line.strip_suffix(':')?;
    let local = label.starts_with(".L") || label.starts_with(['\t', ' ', '#', '"']);
    (!local).then_some(label)
}

/// The instruction of a line, without a comment; `None`: a directive, a label, nothing.
fn instruction(line: &str) -> Option<&str> {
    let code = line.strip_prefix('\t')?;
    let code = code.split_once(" # ").map_or(code, |(code, _)| code).trim_end();
    let code = code.split_once("\t# ").map_or(code, |(code, _)| code).trim_end();
    code.starts_with(|c: char| c.is_ascii_lowercase()).then_some(code)
}

fn split(code: &str) -> (&str, &str) {
    code.split_once(['\t', ' ']).map_or((code, ""), |(op, rest)| (op, rest.trim()))
}

/// Names that stand elsewhere than behind a direct call or jump: in data, or as an operand.
fn addresses_taken(source: &str) -> BTreeSet<&str> {
    let mut taken = BTreeSet::new();
    for line in source.lines() {
        let data = line.strip_prefix("\t.quad\t").or_else(|| line.strip_prefix("\t.long\t"));
        if let Some(name) = data {
            taken.insert(name.split(['+', '-']).next().unwrap_or(name));
        } else if let Some(code) = instruction(line) {
            let (op, operands) = split(code);
            let direct =
                (op.starts_with("call") || op.starts_with('j')) && !operands.starts_with('*');
            if direct {
                continue;
            }
            for operand in operands.split(", ") {
                let name = operand.trim_start_matches(['$', '*']);
                let name = name.split(['@', '(', '+']).next().unwrap_or(name);
                taken.insert(name);
            }
        }
    }
    taken
}

fn check(code: &str) -> Result<(), String> {
    let vector = ["%xmm", "%ymm", "%zmm", "%mm", "%st", "%k"].iter().find(|register| {
        code.match_indices(**register).any(|(at, _)| {
            let rest = &code[at + register.len()..];
            rest.starts_with(|c: char| c.is_ascii_digit())
                || (**register == "%st" && !rest.starts_with('r'))
        })
    });
    match vector {
        Some(register) => Err(format!("a register of kind {register} in a kernel")),
        None => Ok(()),
    }
}

/// What a function has taken of the stack so far.
#[derive(Clone, Debug, Default)]
struct Frame {
    function: String,
    pushed: u64,
    largest: u64,
}

impl Frame {
    /// Over-estimates where a function takes its frame on two ways.
    fn see(&mut self, code: &str) {
        let (op, operands) = split(code);
        match op {
            "pushq" | "push" => self.pushed += 8,
            "popq" | "pop" => self.pushed = self.pushed.saturating_sub(8),
            "subq" | "addq" => {
                let Some(number) = operands.strip_suffix(", %rsp") else { return };
                let Some(number) = number.strip_prefix('$').and_then(|n| n.parse::<i64>().ok())
                else {
                    return;
                };
                let number = if op == "addq" { -number } else { number };
                if number > 0 {
                    self.largest = self.largest.max(self.pushed + number as u64);
                }
            }
            _ => {}
        }
        self.largest = self.largest.max(self.pushed);
    }
}

/// One instruction as the kernel wants it.
fn convert(code: &str, line: &str, out: &mut Assembly) -> Result<(), String> {
    let (op, operands) = split(code);
    let branch = op.trim_end_matches('q');
    match (branch, operands) {
        ("ret", "") => {
            out.returns += 1;
            push(&mut out.text, "\tjmp\t__x86_return_thunk");
        }
        // What is linked into the kernel is called directly.
        ("call" | "jmp", target) if target.ends_with("@PLT") => {
            push(&mut out.text, line.trim_end_matches("@PLT"));
        }
        ("call" | "jmp", target) if target.starts_with('*') => indirect(branch, &target[1..], out),
        ("call", "hw_panic") => {
            push(&mut out.text, line);
            push(&mut out.text, "\tud2");
        }
        ("mov", operands) if operands.contains("@GOTPCREL(%rip), ") => {
            let (name, register) =
                operands.split_once("@GOTPCREL(%rip), ").ok_or("an operand that is not known")?;
            out.addresses += 1;
            push(&mut out.text, &format!("\tmovq\t${name}, {register}"));
        }
        _ if code.contains("@GOTPCREL") || code.contains("@PLT") => {
            return Err("a use of a table of addresses that is not known".into());
        }
        _ => push(&mut out.text, line),
    }
    Ok(())
}

fn indirect(branch: &str, target: &str, out: &mut Assembly) {
    if let Some(name) = target.strip_suffix("@GOTPCREL(%rip)") {
        out.addresses += 1;
        push(&mut out.text, &format!("\t{branch}\t{name}"));
        return;
    }
    out.indirect += 1;
    match target.strip_prefix('%') {
        Some(register) => {
            push(&mut out.text, &format!("\t{branch}\t__x86_indirect_thunk_{register}"));
        }
        None => {
            push(&mut out.text, &format!("\tmovq\t{target}, %r11"));
            push(&mut out.text, &format!("\t{branch}\t__x86_indirect_thunk_r11"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> Assembly {
        rewrite(text).unwrap()
    }

    #[test]
    fn returns_and_indirect_branches_go_through_thunks() {
        let a = rewritten(
            "f:\n\tcallq\t*%rax\n\tcallq\t*24(%rbx)\n\tjmpq\t*%r14\n\tretq\ng:\n\tjmpq\t*8(%rsi)\n",
        );
        assert_eq!(
            a.text,
            "f:\n\tcall\t__x86_indirect_thunk_rax\n\tmovq\t24(%rbx), %r11\n\tcall\t__x86_indirect_thunk_r11\n\
             \tjmp\t__x86_indirect_thunk_r14\n\tjmp\t__x86_return_thunk\ng:\n\tmovq\t8(%rsi), %r11\n\
             \tjmp\t__x86_indirect_thunk_r11\n"
        );
        assert_eq!((a.returns, a.indirect), (1, 4));
    }

    #[test]
    fn addresses_are_direct() {
        let a = rewritten(
            "f:\n\tmovq\tg@GOTPCREL(%rip), %r12\n\tcallq\t*memcpy@GOTPCREL(%rip)\n\tjmpq\t*h@GOTPCREL(%rip)\n",
        );
        assert_eq!(a.text, "f:\n\tmovq\t$g, %r12\n\tcall\tmemcpy\n\tjmp\th\n");
        assert_eq!((a.addresses, a.indirect), (3, 0));
        assert_eq!(rewritten("f:\n\tcallq\tg@PLT\n").text, "f:\n\tcallq\tg\n");
        let error = rewrite("f:\n\tcmpq\tg@GOTPCREL(%rip), %rax\n").unwrap_err();
        assert!(error.starts_with("line 2:") && error.contains("table of addresses"), "{error}");
    }

    #[test]
    fn only_functions_whose_address_is_taken_have_a_landing_place() {
        let types: String =
            ["f", "g", "h", "k"].map(|name| format!("\t.type\t{name},@function\n")).concat();
        let a = rewritten(&format!(
            "{types}f:\n\tcallq\tg\n\tmovq\t$h, %rax\n\tmovq\t$d, %rax\n\tretq\ng:\n\tretq\nh:\n\tretq\nk:\n\tretq\n\
             d:\n\t.quad\tk\n"
        ));
        assert_eq!(a.landing, 2);
        for function in ["h", "k"] {
            assert!(a.text.contains(&format!("{function}:\n\tendbr64\n")), "{}", a.text);
        }
        // Bytes of data stay where they are.
        assert!(a.text.ends_with("d:\n\t.quad\tk\n"), "{}", a.text);
    }

    #[test]
    fn places_in_tables_are_landing_places() {
        let a = rewritten(
            "f:\n\tjmpq\t*.LJTI0_0(,%rax,8)\n.LBB0_1:\n\tretq\n.LBB0_2:\n\tretq\n.LJTI0_0:\n\t.quad\t.LBB0_2\n",
        );
        assert_eq!(a.landing, 1);
        assert!(a.text.contains(".LBB0_2:\n\tendbr64\n\tjmp\t__x86"), "{}", a.text);
        assert!(a.text.contains("\tmovq\t.LJTI0_0(,%rax,8), %r11\n"), "{}", a.text);
    }

    #[test]
    fn what_does_not_return_is_followed_by_a_trap() {
        assert_eq!(rewritten("f:\n\tcallq\thw_panic\n").text, "f:\n\tcallq\thw_panic\n\tud2\n");
    }

    #[test]
    fn frames_and_vector_registers_are_seen() {
        let a =
            rewritten("f:\n\tpushq\t%rbx\n\tsubq\t$2040, %rsp\n\tretq\ng:\n\tsubq\t$16, %rsp\n");
        assert_eq!(a.frame, (2048, "f".to_string()));
        let error = rewrite("f:\n\tpushq\t%rbx\n\tsubq\t$2048, %rsp\n").unwrap_err();
        assert_eq!(error, "line 3: f has a frame of 2056 bytes; 2048 are the most");
        let error = rewrite("f:\n\taddq\t$-4096, %rsp\n").unwrap_err();
        assert!(error.contains("a frame of 4096 bytes"), "{error}");
        let error = rewrite("f:\n\tmovaps\t%xmm0, (%rdi)\n").unwrap_err();
        assert!(error.starts_with("line 2: a register of kind %xmm"), "{error}");
        rewritten("f:\n\tmovq\t%rsi, %rdi\n\tmovq\tkind%k, %rax\n");
    }

    #[test]
    fn text_and_directives_stay() {
        let text = "f:\n\t.ascii\t\"call *%rax ret @GOTPCREL %xmm0\"\n.Lx:\n\t.p2align\t4\n";
        assert_eq!(rewritten(text).text, text);
        assert_eq!(rewritten("f:\n\t.cfi_startproc\n\t.loc\t1 2 3\n").text, "f:\n");
    }
}
