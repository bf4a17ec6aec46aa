//! Somebody who watches the broker over its HTTP port, through every crash: what is answered must be whole and make sense.

use base::ShardId;
use shard::Slice;

use crate::clients::Client;
use crate::node::HTTP_PORT;

/// What is asked for, each as often as it stands here. Metrics are long: asked for now and then, they take the simulation no time worth
/// naming.
const PATHS: [&str; 8] = ["/readyz", "/readyz", "/readyz", "/readyz", "/readyz", "/healthz", "/healthz", "/metrics"];

/// Asks for one thing or another until the round is over. What is asked is drawn, so that a short round has its share of all.
pub async fn watch_loop(client: Client) {
    while !client.is_over() {
        let path = PATHS[client.model.borrow_mut().below(PATHS.len() as u64) as usize];
        // Without a broker, or with one that crashes meanwhile, there is no answer, which is fine.
        let pause_ms = match ask(&client, path).await {
            Some(answer) => {
                let judged = judge(&client, path, &answer);
                let mut model = client.model.borrow_mut();
                if let Err(why) = judged {
                    model.broken.get_or_insert(why);
                }
                500
            }
            // It is down: what it says while it starts is what matters now, and it is not long about it.
            None => 1,
        };
        client.pause(pause_ms).await;
    }
    client.model.borrow_mut().working -= 1;
}

/// The whole answer; `None` when the connection breaks before its end.
async fn ask(client: &Client, path: &str) -> Option<String> {
    let mut broker = client.broker;
    broker.set_port(HTTP_PORT);
    let deadline = client.shard.now() + std::time::Duration::from_secs(20);
    let exchange = async {
        let socket = client.shard.connect(broker).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: broker\r\nconnection: close\r\n\r\n");
        socket.send(vec![Slice::from_vec(request.into_bytes())]).await.ok()?;
        let mut answer = Vec::new();
        loop {
            let more = socket.recv().await.ok()?;
            if more.is_empty() {
                break;
            }
            answer.extend_from_slice(&more);
        }
        let answer = String::from_utf8(answer).ok()?;
        // The peer may have crashed in the middle of it.
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
        (body.len() == length.parse::<usize>().ok()?).then_some(answer)
    };
    client.shard.until(deadline, exchange).await?
}

fn judge(client: &Client, path: &str, answer: &str) -> Result<(), String> {
    let (head, body) = answer.split_once("\r\n\r\n").expect("it has a head");
    let status = head.split(' ').nth(1).unwrap_or_default();
    let hit = |what| client.model.borrow_mut().register.hit(what);
    match (path, status) {
        ("/metrics", "200") => {
            if body.contains(&format!("tidemill_partitions{{shard=\"{}\"}}", ShardId(1))) {
                hit("metrics of several shards");
            }
            well_formed(body)
        }
        ("/readyz", "200") | ("/healthz", "200") => Ok(()),
        ("/metrics" | "/readyz", "503") if body.contains("recovering") || body.contains("opening") => {
            hit("watched before it was ready");
            Ok(())
        }
        _ => Err(format!("{path} was answered with {answer:?}")),
    }
}

/// Every line names a metric that was introduced before it, and has a number.
fn well_formed(body: &str) -> Result<(), String> {
    let mut family = "";
    for line in body.lines() {
        if let Some(introduced) = line.strip_prefix("# TYPE ") {
            family = introduced.split(' ').next().unwrap_or_default();
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').ok_or_else(|| format!("no value: {line}"))?;
            if !series.starts_with(family) || value.parse::<f64>().is_err() {
                return Err(format!("in {family}: {line}"));
            }
        }
    }
    Ok(())
}
