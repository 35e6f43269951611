//! Tests of the client with a server that follows a script. They cover a batch in one write, rows that are kept or
//! counted, and every kind of wrong answer.

use std::borrow::Cow;
use std::sync::Mutex;

use bufferlab_workload::client::{StatementId, StatementSpec};

use super::super::connection::tests::{error, target, welcome};
use super::super::startup::SESSION;
use super::super::wire::tests::{Cue, Scripted, message};
use super::super::wire::{SILENCE, Silence, Wire};
use super::*;

const READ: StatementId = StatementId(0);
const ADD: StatementId = StatementId(1);

fn list(rows: RowUse) -> Statements {
    Statements {
        place: "this test".to_owned(),
        specs: vec![
            StatementSpec { name: Cow::Borrowed("read"), parameters: 1, columns: 1 },
            StatementSpec { name: Cow::Borrowed("add"), parameters: 2, columns: 0 },
        ],
        texts: vec!["SELECT n FROM t WHERE id = $1".to_owned(), "UPDATE t SET n = n + $1 WHERE id = $2;".to_owned()],
        rows,
    }
}

fn described(parameters: &[u32], columns: &[u32]) -> Vec<u8> {
    let counted = |types: &[u32]| (types.len() as i16).to_be_bytes().to_vec();
    let types: Vec<u8> = parameters.iter().flat_map(|oid| oid.to_be_bytes()).collect();
    let column = |oid: &u32| [&b"c\0\0\0\0\0\0\0"[..], &oid.to_be_bytes(), &[0; 8]].concat();
    let columns = match columns {
        [] => message(b'n', b""),
        columns => message(b'T', &[counted(columns), columns.iter().flat_map(column).collect()].concat()),
    };
    let parameters = message(b't', &[counted(parameters), types].concat());
    [message(b'1', b""), parameters, columns, message(b'Z', b"I")].concat()
}

/// Returns a client with prepared statements, whose server then sends `cues`, and the bytes that the server has
/// received since.
fn client(sending: Sending, rows: RowUse, cues: Vec<Cue>) -> (PostgresClient, Arc<Mutex<Vec<u8>>>) {
    let own = std::iter::repeat_with(|| described(&[], &[])).take(4);
    let tell = described(&[], &[2_278]);
    let catalogue = [described(&[23], &[23]), described(&[20, 21], &[])];
    let prepared = std::iter::once(welcome()).chain(own).chain([tell]).chain(catalogue).map(Cue::Bytes);
    let server = Scripted::new(prepared.chain(cues));
    let heard = Arc::clone(&server.heard);
    let wire = Wire::new(Box::new(server), Silence::Fatal, SILENCE).expect("a script is always there");
    let connection = Connection::start(wire, &target(), "d", &SESSION).expect("it lets everybody in");
    let client = PostgresClient::new(connection, &list(rows), sending, Arc::default()).expect("both compile");
    heard.lock().expect("nobody panics").clear();
    (client, heard)
}

fn row(value: i32) -> Vec<u8> {
    message(b'D', &[&b"\0\x01\0\0\0\x04"[..], &value.to_be_bytes()].concat())
}

fn done(tag: &str) -> Vec<u8> {
    message(b'C', format!("{tag}\0").as_bytes())
}

fn bound() -> Vec<u8> {
    message(b'2', b"")
}

fn ready(state: &[u8; 1]) -> Vec<u8> {
    message(b'Z', state)
}

fn batch() -> Batch {
    let mut batch = Batch::default();
    batch.call(READ, &[Value::Int(1)]);
    batch.call(ADD, &[Value::Int(-5), Value::Int(2)]);
    batch.call(READ, &[Value::Int(3)]);
    batch
}

/// Returns the types of the messages that a client has sent.
fn types(heard: &Mutex<Vec<u8>>) -> String {
    let (heard, mut at, mut types) = (heard.lock().expect("nobody panics").clone(), 0, String::new());
    while at < heard.len() {
        types.push(char::from(heard[at]));
        let length = heard[at + 1..at + 5].try_into().expect("a length");
        at += 1 + i32::from_be_bytes(length) as usize;
    }
    types
}

#[test]
fn a_batch_travels_whole_and_its_begin_with_it() {
    let answers = [
        bound(),
        done("BEGIN"),
        bound(),
        row(7),
        done("SELECT 1"),
        bound(),
        done("UPDATE 1"),
        bound(),
        done("SELECT 0"),
        ready(b"T"),
        bound(),
        done("COMMIT"),
        ready(b"I"),
    ];
    let (mut client, heard) = client(Sending::Batched, RowUse::Kept, vec![Cue::Bytes(answers.concat())]);
    let mut batch = batch();
    client.begin(false).expect("nothing is sent yet");
    client.execute(&mut batch).expect("all is answered");
    assert_eq!(types(&heard), "BEBEBEBES");
    assert_eq!((batch.value(0, 1, 0, 0), batch.affected(1), batch.rows(2)), (Value::Int(7), 1, 0));
    client.commit().expect("it commits");
    assert_eq!((client.round_trips(), client.rows_returned()), (2, 1));
}

#[test]
fn one_by_one_every_statement_waits_for_its_answer() {
    let answers = [
        [bound(), done("BEGIN"), ready(b"T")].concat(),
        [bound(), row(7), done("SELECT 1"), ready(b"T")].concat(),
        [bound(), done("UPDATE 1"), ready(b"T")].concat(),
        [bound(), done("SELECT 0"), ready(b"T")].concat(),
        [bound(), done("ROLLBACK"), ready(b"I")].concat(),
    ];
    let cues = answers.map(Cue::Bytes).into_iter().collect();
    let (mut client, heard) = client(Sending::Spec, RowUse::Kept, cues);
    client.begin(true).expect("it begins");
    client.execute(&mut batch()).expect("all is answered");
    client.rollback().expect("it rolls back");
    client.rollback().expect("nothing is left to roll back, and nothing is sent");
    assert_eq!((types(&heard).as_str(), client.round_trips()), ("BESBESBESBESBES", 5));
}

#[test]
fn after_an_error_the_rest_of_a_batch_is_skipped_and_the_client_goes_on() {
    let failed = [bound(), row(7), done("SELECT 1"), bound(), error("ERROR", "40P01"), ready(b"E")].concat();
    let undone = [bound(), done("ROLLBACK"), ready(b"I")].concat();
    let again =
        [bound(), row(8), done("SELECT 1"), bound(), done("UPDATE 1"), bound(), row(9), done("SELECT 1"), ready(b"I")];
    let cues = [failed, undone, again.concat()].map(Cue::Bytes).into_iter().collect();
    let (mut client, _) = client(Sending::Batched, RowUse::Kept, cues);
    let mut batch = batch();
    assert!(matches!(client.execute(&mut batch), Err(ClientError::Retry { .. })));
    client.rollback().expect("it rolls back");
    client.execute(&mut batch).expect("all is answered");
    assert_eq!((batch.value(0, 1, 0, 0), batch.value(2, 1, 0, 0)), (Value::Int(8), Value::Int(9)));
}

#[test]
fn a_commit_that_rolls_back_is_no_commit() {
    let answers = [bound(), done("BEGIN"), bound(), done("ROLLBACK"), ready(b"I")].concat();
    let (mut client, _) = client(Sending::Batched, RowUse::Kept, vec![Cue::Bytes(answers)]);
    client.begin(false).expect("nothing is sent yet");
    assert!(matches!(client.commit(), Err(ClientError::Statement { .. })));
}

#[test]
fn a_value_that_does_not_fit_is_refused_before_anything_is_sent() {
    let answers = [bound(), row(7), done("SELECT 1"), ready(b"I")].concat();
    let (mut client, heard) = client(Sending::Batched, RowUse::Kept, vec![Cue::Bytes(answers)]);
    let mut unfit = Batch::default();
    unfit.call(ADD, &[Value::Int(1), Value::Int(40_000)]);
    let refused = client.execute(&mut unfit).expect_err("a smallint is smaller");
    assert!(refused.to_string().contains("smallint") && refused.to_string().contains("add"), "{refused}");
    assert!(heard.lock().expect("nobody panics").is_empty());
    let mut good = Batch::default();
    good.call(READ, &[Value::Int(1)]);
    client.execute(&mut good).expect("the connection is whole");
}

#[test]
fn rows_that_nobody_looks_at_are_counted_and_asked_for_as_text() {
    let answers = [bound(), message(b'D', b"whatever"), message(b'D', b""), done("SELECT 2"), ready(b"I")].concat();
    let (mut client, heard) = client(Sending::Spec, RowUse::Counted, vec![Cue::Bytes(answers)]);
    let mut batch = Batch::default();
    batch.call(READ, &[Value::Null]);
    client.execute(&mut batch).expect("it is answered");
    assert_eq!((batch.rows(0), client.rows_returned()), (2, 2));
    // The expected Bind message: no name of a portal, the statement s0, one format (text), one value (NULL), no format
    // of results.
    let heard = heard.lock().expect("nobody panics").clone();
    assert_eq!(
        &heard[5..],
        [&b"\0s0\0\0\x01\0\0\0\x01\xff\xff\xff\xff\0\0"[..], b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04"].concat()
    );
}

/// Each answer to the first call of a batch makes the connection unusable.
#[test]
fn every_broken_answer_is_a_lost_connection() {
    let mut truncated = row(7);
    truncated.truncate(9);
    let cases: [(&str, Vec<Cue>); 9] = [
        ("it hangs up", vec![]),
        ("it is silent", vec![Cue::Bytes(bound()), Cue::Silence]),
        ("it hangs up in a message", vec![Cue::Bytes([bound(), truncated].concat())]),
        ("a message of no length", vec![Cue::Bytes([bound(), b"D\0\0\0\0".to_vec()].concat())]),
        ("a huge length", vec![Cue::Bytes([bound(), b"D\x7f\xff\xff\xff".to_vec()].concat())]),
        ("an unknown type", vec![Cue::Bytes(message(b'?', b""))]),
        ("a row of two columns", vec![Cue::Bytes(message(b'D', b"\0\x02\xff\xff\xff\xff\xff\xff\xff\xff"))]),
        ("a row without its value", vec![Cue::Bytes(message(b'D', b"\0\x01\0\0\0\x04\0"))]),
        ("the end of the server", vec![Cue::Bytes(error("FATAL", "57P01"))]),
    ];
    for (case, cues) in cases {
        let (mut client, _) = client(Sending::Batched, RowUse::Kept, cues);
        let outcome = client.execute(&mut batch());
        assert!(matches!(outcome, Err(ClientError::Lost { .. })), "{case}: {outcome:?}");
    }
}

#[test]
fn a_value_of_another_size_than_its_type_is_named_and_the_rest_is_read() {
    let odd = message(b'D', b"\0\x01\0\0\0\x02\0\x01");
    let answers = [bound(), odd, done("SELECT 1"), ready(b"I")].concat();
    let good = [bound(), row(7), done("SELECT 1"), ready(b"I")].concat();
    let (mut client, _) = client(Sending::Batched, RowUse::Kept, vec![Cue::Bytes(answers), Cue::Bytes(good)]);
    let mut batch = Batch::default();
    batch.call(READ, &[Value::Int(1)]);
    assert!(matches!(client.execute(&mut batch), Err(ClientError::Statement { .. })));
    client.execute(&mut batch).expect("the connection is whole");
}

#[test]
fn a_statement_that_wants_data_is_told_that_there_is_none() {
    let answers = [[bound(), message(b'G', b"\0\0\0")].concat(), [error("ERROR", "57014"), ready(b"I")].concat()];
    let (mut client, heard) = client(Sending::Spec, RowUse::Counted, answers.map(Cue::Bytes).into_iter().collect());
    let mut batch = Batch::default();
    batch.call(READ, &[Value::Int(1)]);
    client.execute(&mut batch).expect_err("it fails");
    assert_eq!(types(&heard), "BESfS");
}

#[test]
fn counters_are_told_in_a_transaction_of_their_own() {
    let told = [bound(), message(b'D', b"\0\x01\0\0\0\0"), done("SELECT 1"), ready(b"I")].concat();
    let (mut client, heard) = client(Sending::Spec, RowUse::Kept, vec![Cue::Bytes(told)]);
    client.tell_counters().expect("it is answered");
    assert_eq!((types(&heard).as_str(), client.own_commits.load(Ordering::Relaxed)), ("BES", 1));
}
