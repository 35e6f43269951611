//! Tests of the reader of scripts: which texts it accepts, which it refuses with which message, and that no text makes
//! it panic.

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<Script, ScriptError> {
    Script::parse("my.sql", text, &[("rows".to_owned(), Number::Int(100))])
}

/// Returns the error of a text as `line: what | hint`.
fn error(text: &str) -> String {
    let error = read(text).and_then(|script| script.check().map(|()| script)).expect_err("it should be refused");
    assert_eq!(error.source, "my.sql");
    format!("{}: {} | {}", error.line, error.what, error.hint)
}

/// Returns the texts of all statements with `?` for parameters.
fn texts(text: &str) -> Vec<String> {
    let script = read(text).expect("the script is right");
    script.statements.iter().map(|sql| sql.text(|_| "?".to_owned())).collect()
}

const WHOLE: &str = "\
-- A comment that is none of ours.
-- setup
CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t
SELECT value, 'x' FROM generate_series(1, :rows);

-- transaction: read weight=9
\\set id random(1, :rows)
SELECT v FROM t WHERE id = :id;
-- transaction: write
\\set id random_zipfian(1, :rows, 0.9)
BEGIN; UPDATE t SET v = 'x' WHERE id = :id; COMMIT;
";

#[test]
fn a_script_has_its_setup_transactions_weights_and_statements() {
    let script = read(WHOLE).expect("the script is right");
    let transactions: Vec<_> = script
        .transactions()
        .iter()
        .map(|transaction| (transaction.name.as_str(), transaction.weight, transaction.statements))
        .collect();
    assert_eq!(transactions, [("read", 9, 1), ("write", 1, 3)]);
    assert_eq!(script.setup_statements(), 2);
    assert_eq!(script.variables_used(), ["rows"]);
    let lines: Vec<usize> = script.statements.iter().map(|sql| sql.line).collect();
    assert_eq!(lines, [3, 3, 8, 11, 11, 11]);
    script.check().expect("every variable has a value");
}

#[test]
fn a_text_without_sections_is_one_transaction() {
    let script = read("SELECT 1;\nSELECT 2 -- and no semicolon").expect("the script is right");
    assert_eq!((script.transactions()[0].name.as_str(), script.transactions()[0].statements), ("script", 2));
}

#[test]
fn windows_line_ends_and_any_case_of_markers_are_read() {
    let script =
        read("-- SETUP:\r\nCREATE TABLE a(b);\r\n  -- Transaction:  one  weight=2\r\n\\set x 1\r\nSELECT :x\r\n");
    let script = script.expect("the script is right");
    assert_eq!((script.setup_statements(), script.transactions()[0].weight), (1, 2));
}

#[test]
fn a_marker_with_blanks_before_it_begins_a_section_on_the_first_line_too() {
    let script = read("  -- setup\nCREATE TABLE a(b);\n \t-- transaction: one weight=3\nSELECT 1;");
    let script = script.expect("the script is right");
    assert_eq!((script.setup_statements(), script.transactions()[0].weight), (1, 3));
    let only = read("  -- transaction: one weight=3\nSELECT 1;").expect("the script is right");
    assert_eq!((only.transactions()[0].name.as_str(), only.transactions()[0].weight), ("one", 3));
}

#[test]
fn variables_are_found_and_everything_that_only_looks_like_one_is_left_alone() {
    let sql = "SELECT ':id', \":id\", `:id`, x::int, $$:id$$, $tag$ :id; $tag$, '12:30', a[1:2], :rows /* :id ; */\n-- :id;\nFROM t;";
    assert_eq!(texts(sql), [sql.replace(":rows", "?").trim_end_matches(';')]);
    assert_eq!(texts("SELECT 'it''s :no;', :rows+:rows"), ["SELECT 'it''s :no;', ?+?"]);
    assert_eq!(
        texts("SELECT 'ünï:x', ü FROM t WHERE ä=:rows;SELECT 2"),
        ["SELECT 'ünï:x', ü FROM t WHERE ä=?", "SELECT 2"]
    );
    assert_eq!(texts("SELECT $1 + 1, 5$;"), ["SELECT $1 + 1, 5$"]);
}

#[test]
fn a_trigger_is_one_statement() {
    let trigger = "CREATE TEMP TRIGGER g AFTER INSERT ON t BEGIN SELECT CASE WHEN 1 THEN 2 END; DELETE FROM u; END";
    let text = format!("-- setup\n{trigger};\nSELECT 1;\n-- transaction: a\nSELECT 2;");
    assert_eq!(texts(&text), [trigger, "SELECT 1", "SELECT 2"]);
}

#[test]
fn a_trigger_without_a_body_of_several_statements_ends_at_its_semicolon() {
    for trigger in [
        "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.v = 'BEGIN'",
    ] {
        let text = format!("-- setup\n{trigger};\nSELECT :rows;\n-- transaction: a\nSELECT 2;");
        assert_eq!(texts(&text), [trigger, "SELECT ?", "SELECT 2"]);
    }
    let open = "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION f(); COMMIT;";
    assert!(error(open).contains("this statement needs a transaction"), "{}", error(open));
}

#[test]
fn a_transaction_that_chains_the_next_is_refused_and_one_that_says_it_does_not_is_read() {
    for end in ["COMMIT AND CHAIN", "commit work and chain", "ROLLBACK AND CHAIN", "END AND CHAIN", "ABORT AND CHAIN"] {
        let told = error(&format!("BEGIN;\nSELECT 1;\n{end};"));
        assert_eq!(told, "3: AND CHAIN leaves a transaction open | write COMMIT; and then BEGIN;", "{end}");
    }
    for (end, is_rolled_back) in [("COMMIT AND NO CHAIN", false), ("ROLLBACK WORK AND NO CHAIN", true)] {
        let script = read(&format!("BEGIN; SELECT 1; {end};")).expect("the transaction has ended");
        assert_eq!(script.transactions()[0].ends_rolled_back, is_rolled_back, "{end}");
    }
}

#[test]
fn placeholders_are_the_engines() {
    let script = read("SELECT :rows, :rows").expect("the script is right");
    assert_eq!(script.statements[0].text(|index| format!("${}", index + 1)), "SELECT $1, $2");
    assert_eq!(script.statements[0].parameters(), 2);
}

#[test]
fn sections_written_wrongly_are_named_with_the_right_form() {
    let cases = [
        ("-- transactions: a\nSELECT 1", "1: \"-- transactions: a\" looks like the beginning of a section"),
        ("-- transaction read weight=2\nSELECT 1", "looks like the beginning of a section"),
        ("-- setups\nSELECT 1", "write -- setup"),
        ("SELECT 1;\n-- transaction: a\nSELECT 1", "2: line 1 stands before the first section"),
        ("-- transaction: A\nSELECT 1", "1: \"A\" is no name for a transaction | a name is made of small letters"),
        ("-- transaction:\nSELECT 1", "\"\" is no name"),
        ("-- transaction: a weight=0\nSELECT 1", "\"weight=0\" is no weight"),
        ("-- transaction: a weight=x\nSELECT 1", "\"weight=x\" is no weight"),
        ("-- transaction: a weight = 2\nSELECT 1", "\"weight\" is no weight"),
        ("-- transaction: a weight=2 more\nSELECT 1", "\"more\" follows"),
        ("-- transaction: a\nSELECT 1;\n-- transaction: a\nSELECT 1", "3: there are two transactions called a"),
        ("-- setup\nSELECT 1;\n-- setup\nSELECT 1", "3: this is the second setup section"),
        ("-- transaction: a\n-- transaction: b\nSELECT 1", "the transaction a has no statement"),
        ("", "1: this script has no statement"),
        ("-- only a comment", "this script has no statement"),
        ("\\set a 1", "the transaction script has no statement"),
    ];
    for (text, expected) in cases {
        assert!(error(text).contains(expected), "{text:?}: {}", error(text));
    }
    read("-- set the table up\n-- note: this is one transaction, weight and all\nSELECT 1").expect("only comments");
}

#[test]
fn a_setup_alone_can_be_read_but_not_played() {
    let script = read("-- setup\nSELECT 1;").expect("for a load this is enough");
    script.check().expect("nothing is wrong");
    let error = crate::script::ScriptWorkload::new(script, 1).expect_err("there is nothing to play");
    assert!(error.what.contains("no transaction"), "{error}");
}

#[test]
fn statements_written_wrongly_are_named_with_their_line() {
    let cases = [
        ("SELECT 1\n\\set a 2\nSELECT :a;", "2: the statement begun on line 1 has no ';' before this line"),
        ("SELECT 'abc\n;", "1: the quote in 'abc has no end"),
        ("SELECT 1;\n/* abc", "2: this comment has no end"),
        ("SELECT 1\n/* abc", "2: this comment has no end"),
        ("SELECT $x$ abc", "the text quoted by $x$ has no end"),
        ("SELECT\n :row", "2: the variable :row has no value here | did you mean :rows?"),
        ("SELECT :id", "Set it with \\set earlier in the same section; known here: :rows, :transaction_number"),
        ("-- transaction: a\n\\set x 1\nSELECT :x;\n-- transaction: b\nSELECT :x", "5: the variable :x has no value"),
        ("-- setup\nSELECT :transaction_number;", "has no value in the setup section"),
        ("BEGIN;\nSELECT 1;", "1: this BEGIN has no COMMIT or ROLLBACK"),
        ("SELECT 1;\nCOMMIT;", "2: this statement needs a transaction"),
        ("BEGIN;\nSTART TRANSACTION; COMMIT", "2: BEGIN inside the transaction begun on line 1"),
        ("SAVEPOINT a;", "this statement needs a transaction"),
    ];
    for (text, expected) in cases {
        assert!(error(text).contains(expected), "{text:?}: {}", error(text));
    }
    read("BEGIN; SAVEPOINT a; ROLLBACK TO a; RELEASE a; ROLLBACK").expect("a savepoint inside a transaction");
}

#[test]
fn set_lines_written_wrongly_are_named_with_the_right_form() {
    let cases = [
        ("\\sleep 1", "1: \\sleep is no command of scripts | known: \\set. The setting rate"),
        ("\\setrandom a 1 2", "Write \\set NAME random(low, high)"),
        ("\\if 1", "known: \\set NAME EXPRESSION"),
        ("\\set", "\"\" is no name for a variable"),
        ("\\set 1a 2", "\"1a\" is no name"),
        ("\\set a", "\\set a has no expression"),
        ("\\set rows 2", "the workload sets :rows, and a script cannot"),
        ("\\set a 1;", "a \\set line ends without ';'"),
        ("\\set a 1 +", "the line ends where a number, a :variable or a function should be"),
        ("\\set a (1", "the line ends where \")\" should be"),
        ("\\set a rows * 2", "rows is neither a number nor a variable | a variable is written with a colon: :rows"),
        ("\\set a randon(1, 2)", "there is no function randon | did you mean random?"),
        ("\\set a random(1)", "random takes 2 parameters, not 1 | write random(low, high)"),
        ("\\set a random_zipfian(1, 2)", "takes 3 parameters, not 2"),
        ("\\set a abs(1, 2)", "abs takes 1 parameters, not 2"),
        ("\\set a 9223372036854775808", "9223372036854775808 is not a number that fits"),
        ("\\set a 1e999", "1e999 is not a number that fits"),
        ("\\set a 1 ü", "\"ü\" stands where an operator"),
        ("\\set a :b", "the variable :b has no value here"),
        ("\n\\set a 1 / (2 - 2)\nSELECT 1", "2: division by zero | keep the divisor"),
        ("\\set a 9223372036854775807 + 1\nSELECT 1", "1: the result is too large"),
        ("\\set a random(2, 1)\nSELECT 1", "random(2, 1) has no value to draw"),
        ("\\set a random(1, 1.5)\nSELECT 1", "random takes whole numbers, and 1.5 is not whole"),
        ("\\set a 1.5 % 2\nSELECT 1", "% takes whole numbers"),
        (
            "\\set a random_zipfian(1, 2, -1)\nSELECT 1",
            "the last parameter of random_zipfian is -1; it must be between 0",
        ),
        ("\\set a random_gaussian(1, 2, 1)\nSELECT 1", "must be between 2"),
        ("\\set a random_exponential(1, 2, 0)\nSELECT 1", "must be between 0.000001"),
        ("\\set a 1e308 * 10\nSELECT 1", "the result is too large"),
        ("-- setup\n\\set a 1 / 0\nSELECT 1", "2: division by zero"),
    ];
    for (text, expected) in cases {
        assert!(error(text).contains(expected), "{text:?}: {}", error(text));
    }
}

#[test]
fn choose_takes_the_value_at_its_place_and_keeps_its_type() {
    use crate::client::{Value, Workload};
    let text = "\\set n random(1, 6)\n\\set v choose(:n, 7, -8, 0.5, 'it''s; :x -- y', x'610a', NULL)\nSELECT :n, :v;";
    let mut workload = crate::script::ScriptWorkload::new(read(text).expect("it is right"), 1).expect("it has one");
    let expected = [
        Value::Int(7),
        Value::Int(-8),
        Value::Real(0.5),
        Value::Text("it's; :x -- y"),
        Value::Text("a\n"),
        Value::Null,
    ];
    let mut seen = [false; 6];
    for _ in 0..200 {
        workload.plan();
        let parameters = workload.parameters();
        let Value::Int(place) = parameters[0] else { panic!("{:?} is no place", parameters[0]) };
        assert_eq!(parameters[1], expected[place as usize - 1]);
        seen[place as usize - 1] = true;
    }
    assert_eq!(seen, [true; 6]);
}

#[test]
fn choose_may_have_a_long_list() {
    let list = (0..100_000).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    let script = read(&format!("\\set v choose(100000, {list})\nSELECT :v;")).expect("it is right");
    let mut workload = crate::script::ScriptWorkload::new(script, 1).expect("it has one");
    crate::client::Workload::plan(&mut workload);
    assert_eq!(workload.parameters(), [crate::client::Value::Int(99_999)]);
}

#[test]
fn mistakes_in_choose_say_what_to_write() {
    let cases = [
        ("choose(1)", "choose has no value to choose"),
        ("choose(1, )", "should be"),
        ("choose(1, a)", "where a number, a text in quotes, or NULL should be"),
        ("choose(1, 'a)", "a quote has no end on its line"),
        ("choose(1, x'6')", "is not the hexadecimal of a UTF-8 text"),
        ("choose(1, x'ff')", "is not the hexadecimal of a UTF-8 text"),
        ("choose(1, 2", "where \",\" or \")\" should be"),
        ("choose(0, 2)", "choose has 1 values, and none at place 0"),
        ("choose(2, 2)", "choose has 1 values, and none at place 2"),
        ("choose(0.5, 2)", "choose takes whole numbers"),
        ("choose(1, 'a') + 1", "a text or NULL of choose stands where a number should be"),
        ("random(choose(1, NULL), 3)", "a text or NULL of choose stands where a number should be"),
        ("abs(choose(1, NULL))", "a text or NULL of choose stands where a number should be"),
    ];
    for (expression, expected) in cases {
        let error = error(&format!("\\set a {expression}\nSELECT :a"));
        assert!(error.contains(expected), "{expression}: {error}");
    }
}

#[test]
fn an_engines_message_is_kept_without_the_values_that_a_script_chooses() {
    let message = || "Duplicate entry 'alice-7' for key 'x' of '7'".to_owned();
    let mine = read("\\set v choose(1, 'alice')\nSELECT :v;").expect("it is right");
    let values = [Number::Text(0), Number::Int(7), Number::Null];
    assert_eq!(mine.without_values(message(), &values), "Duplicate entry '...-7' for key 'x' of '...'");
    let both = read("\\set v choose(1, 'alice', 'alice-7')\nSELECT :v, :v;").expect("it is right");
    assert_eq!(
        both.without_values(message(), &[Number::Text(0), Number::Text(1)]),
        "Duplicate entry '...' for key 'x' of '7'"
    );
    let plain = read("\\set v 1\nSELECT :v;").expect("it is right");
    assert_eq!(plain.without_values(message(), &values), message());
}

#[test]
fn the_beginning_of_a_value_that_an_engine_cut_does_not_stay_in_its_message() {
    let ascii = "a letter of alice to bob about their holidays in the mountains of the north";
    let wide = "ü€".repeat(20);
    for (value, ends) in [(ascii, [8, 9, 64]), (&wide, [10, 15, 62])] {
        let script = read(&format!("\\set v choose(1, '{value}')\nSELECT :v;")).expect("it is right");
        for end in ends {
            let message = format!("Duplicate entry '{}' for key 'x'", &value[..end]);
            let told = script.without_values(message, &[Number::Text(0)]);
            assert_eq!(told, "Duplicate entry '...' for key 'x'", "{end} bytes of {value}");
        }
    }
}

#[test]
fn hostile_sizes_are_refused_with_a_message() {
    assert!(error(&" ".repeat(MAX_SCRIPT_BYTES + 1)).contains("may have 4194304"));
    assert!(error(&"SELECT 1;".repeat(MAX_STEPS + 1)).contains("more than 10000 statements"));
    for nest in ["(", "-", "abs(", "random(1,", "+"] {
        let error = error(&format!("\\set a {}", nest.repeat(100_000)));
        assert!(error.contains("more than 100 levels deep"), "{nest}: {error}");
    }
    assert!(error(&format!("\\set a 1{}", "+1".repeat(100_000))).contains("more than 1000 parts"));
    assert!(error(&format!("SELECT {}", ":rows,".repeat(1_000))).contains("more than 999 variables"));
    assert!(error(&format!("\\set {} 1", "a".repeat(1_000))).contains("is no name"));
}

/// Returns random fragments of scripts, from which a test composes texts that resemble scripts.
fn piece() -> impl Strategy<Value = String> {
    let known = [
        "\n",
        " ",
        ";",
        "'",
        "\"",
        "`",
        "$$",
        "$a$",
        "--",
        "/*",
        "*/",
        ":",
        "::",
        ":rows",
        ":x",
        "\\set x ",
        "\\set",
        "\\",
        "random(",
        "random_zipfian(",
        "random_gaussian(1, 9, 2.5)",
        "min(",
        ",",
        ")",
        "(",
        "+",
        "-",
        "*",
        "/",
        "%",
        "0",
        "1",
        "9223372036854775807",
        "1e308",
        "0.5",
        ".",
        "e",
        "SELECT ",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "END",
        "CREATE TRIGGER ",
        "\n-- setup\n",
        "\n-- transaction: a\n",
        "\n-- transaction: b weight=3\n",
        "weight=",
        "ü",
        "\r\n",
        "\0",
    ];
    prop_oneof![4 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,4}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn no_text_makes_the_reader_panic_and_what_is_read_can_be_played(pieces in proptest::collection::vec(piece(), 0..60), seed: u64) {
        let text = pieces.concat();
        match read(&text) {
            Err(error) => {
                prop_assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1, "{error} in {text:?}");
                prop_assert!(!error.what.is_empty() && !error.hint.is_empty());
            }
            Ok(script) => {
                // The check may find expressions without a value, but it must not panic.
                let _ = script.check();
                let kept: usize = script.statements.iter().map(|sql| sql.text(|_| String::new()).len()).sum();
                prop_assert!(kept <= text.len(), "statements are longer than their text");
                if let Ok(mut workload) = crate::script::ScriptWorkload::new(script, seed) {
                    for _ in 0..5 {
                        crate::client::Workload::plan(&mut workload);
                    }
                }
            }
        }
    }

    #[test]
    fn whole_arithmetic_agrees_with_a_wide_calculator(a in -1000i64..1000, b in -1000i64..1000, c in 1i64..1000) {
        let text = format!("\\set v ({a}) + ({b}) * {c} - ({a}) / {c} % 7 - -{c}\nSELECT :v");
        let workload = crate::script::ScriptWorkload::new(read(&text).expect("it is right"), 1);
        let mut workload = workload.expect("there is a transaction");
        crate::client::Workload::plan(&mut workload);
        prop_assert_eq!(workload.parameters(), &[crate::client::Value::Int(a + b * c - a / c % 7 + c)]);
    }

    #[test]
    fn random_functions_stay_within_their_bounds(low: i64, span in 0u64..=u64::MAX, exponent in 0.0f64..20.0, parameter in 2.0f64..50.0) {
        let high = low.saturating_add_unsigned(span);
        let low_text = if low == i64::MIN { "(-9223372036854775807 - 1)".to_owned() } else { format!("({low})") };
        let range = format!("{low_text}, {high}");
        let text = format!(
            "\\set a random({range})\n\\set b random_zipfian({range}, {exponent})\n\\set c random_gaussian({range}, {parameter})\n\
             \\set d random_exponential({range}, {parameter})\nSELECT :a, :b, :c, :d"
        );
        let workload = crate::script::ScriptWorkload::new(read(&text).expect("it is right"), 3);
        let mut workload = workload.expect("there is a transaction");
        for _ in 0..20 {
            crate::client::Workload::plan(&mut workload);
            prop_assert_eq!(workload.parameters().len(), 4);
            for value in workload.parameters() {
                let crate::client::Value::Int(value) = value else { panic!("{value:?} is not whole") };
                prop_assert!((low..=high).contains(&value), "{} is not within {} and {}", value, low, high);
            }
        }
    }
}
