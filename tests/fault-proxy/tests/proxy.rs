//! The proxy in front of the in-process registry, over plain sockets: what a client sees of each fault.
#![expect(clippy::unwrap_used, reason = "helpers of tests: what fails here fails the test")]

use std::time::Duration;

use fault_proxy::registry::FakeRegistry;
use fault_proxy::{Fault, FaultProxy, FaultRule, FaultScript};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

struct Bed {
    registry: FakeRegistry,
    proxy: FaultProxy,
    path: String,
}

async fn bed() -> Bed {
    let registry = FakeRegistry::open().await.unwrap();
    let digest = registry.add_blob("team/model", "0123456789");
    let upstream = format!("http://{}", registry.host());
    let proxy = FaultProxy::start("127.0.0.1:0", &upstream, FaultScript::default())
        .await
        .unwrap();
    Bed {
        registry,
        proxy,
        path: format!("/v2/team/model/blobs/{digest}"),
    }
}

impl Bed {
    /// Everything that comes until the connection ends or nothing comes any more; and whether it ended.
    async fn ask(&self, headers: &str) -> (String, bool) {
        let mut stream = TcpStream::connect(self.proxy.address()).await.unwrap();
        let request = format!(
            "GET {} HTTP/1.1\r\nhost: registry.test\r\nconnection: close\r\n{headers}\r\n",
            self.path
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let mut ended = false;
        while let Ok(read) = tokio::time::timeout(Duration::from_millis(300), stream.read_buf(&mut answer)).await {
            if matches!(read, Ok(0) | Err(_)) {
                ended = true;
                break;
            }
        }
        (String::from_utf8(answer).unwrap(), ended)
    }

    async fn ask_with(&self, fault: Fault, headers: &str) -> (String, bool) {
        self.proxy.inject(FaultRule::once("GET", "/blobs/", fault));
        self.ask(headers).await
    }
}

#[tokio::test]
async fn without_a_fault_the_answer_is_the_registrys() {
    let bed = bed().await;
    let (answer, ended) = bed.ask("").await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n0123456789") && ended,
        "{answer}"
    );
    assert_eq!(bed.registry.count("GET", "/blobs/"), 1);
}

#[tokio::test]
async fn bodies_are_cut_stalled_and_spoiled() {
    let bed = bed().await;
    let (answer, ended) = bed.ask_with(Fault::Cut { after: 4 }, "").await;
    assert!(
        answer.contains("content-length: 10") && answer.ends_with("\r\n\r\n0123") && ended,
        "{answer}"
    );
    let (answer, ended) = bed.ask_with(Fault::Stall { after: 4 }, "").await;
    assert!(answer.ends_with("\r\n\r\n0123") && !ended, "{answer}");
    let (answer, _) = bed.ask_with(Fault::WrongByte { at: 3 }, "").await;
    assert!(answer.ends_with("\r\n\r\n0122456789"), "{answer}");
    let (answer, _) = bed.ask_with(Fault::WrongByte { at: 3 }, "range: bytes=2-5\r\n").await;
    assert!(
        answer.ends_with("\r\n\r\n2245"),
        "the byte of the blob, not of the answer: {answer}"
    );
    let (answer, _) = bed.ask_with(Fault::WrongByte { at: 3 }, "range: bytes=5-6\r\n").await;
    assert!(answer.ends_with("\r\n\r\n56"), "{answer}");
}

#[tokio::test]
async fn ranges_are_ignored_moved_and_answered_under_another_status() {
    let bed = bed().await;
    let range = "range: bytes=2-5\r\n";
    let (answer, _) = bed.ask_with(Fault::IgnoreRange, range).await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("0123456789"),
        "{answer}"
    );
    let (answer, _) = bed.ask_with(Fault::OtherRange { shift: 1 }, range).await;
    assert!(
        answer.contains("content-range: bytes 3-5/10") && answer.ends_with("345"),
        "{answer}"
    );
    let (answer, _) = bed.ask_with(Fault::StatusAs { code: 200 }, range).await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("content-range: bytes 2-5/10"),
        "{answer}"
    );
    let (answer, _) = bed
        .ask_with(
            Fault::DropHeader {
                name: "content-range".to_owned(),
            },
            range,
        )
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 206") && !answer.contains("content-range"),
        "{answer}"
    );
}

#[tokio::test]
async fn answers_are_replaced_or_lost() {
    let bed = bed().await;
    let busy = Fault::Status {
        code: 429,
        headers: vec![("retry-after".to_owned(), "7".to_owned())],
        body: "slow down".to_owned(),
    };
    let (answer, _) = bed.ask_with(busy, "").await;
    assert!(
        answer.starts_with("HTTP/1.1 429") && answer.contains("retry-after: 7") && answer.ends_with("slow down"),
        "{answer}"
    );
    let (answer, _) = bed
        .ask_with(
            Fault::Redirect {
                to: "http://elsewhere.test/".to_owned(),
            },
            "",
        )
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 307") && answer.contains("location: http://elsewhere.test/"),
        "{answer}"
    );
    assert_eq!(bed.registry.count("GET", "/blobs/"), 0, "neither asked the registry");
    let (answer, ended) = bed.ask_with(Fault::LostAnswer, "").await;
    assert_eq!(
        (answer.as_str(), ended, bed.registry.count("GET", "/blobs/")),
        ("", true, 1),
        "the registry did its work"
    );
}
