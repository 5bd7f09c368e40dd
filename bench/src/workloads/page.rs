//! The page in a real browser: time to the first view and its size, delay of changes, scrolling of a long
//! transcript, drawing of large graphs, and the cost of a hundred open pages.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use ralph_tests::harness::Browser;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::figures::{Figures, Target, percentile};
use crate::http::Api;
use crate::load;
use crate::process::{cpu_seconds, resident_bytes};
use crate::servers::Servers;
use crate::stub::now;
use crate::system::System;

const FEATURES: usize = 20;
/// Size of each feature: five layers of a hundred tasks.
const LAYERS: usize = 5;
const WIDTH: usize = 100;
/// Features that are cancelled during the observation.
const CHANGES: usize = 10;
const ENTRIES: usize = 50_000;
const OPEN_PAGES: usize = 100;
/// Duration of the observation: each page reloads once in it, as its script does.
const WATCHED: Duration = Duration::from_secs(30);
/// Time for a page to open its stream, and for a start to release the processor.
const SETTLED: Duration = Duration::from_secs(2);
const MIB: f64 = 1024.0 * 1024.0;

/// Start of the response, first paint, end of loading, and transferred bytes.
const TIMES: &str = "const [nav] = performance.getEntriesByType('navigation');
    const [paint] = performance.getEntriesByName('first-contentful-paint');
    const files = [nav, ...performance.getEntriesByType('resource')];
    return paint && nav.loadEventEnd && {
      painted: paint.startTime - nav.responseStart, loaded: nav.loadEventEnd,
      bytes: files.reduce((sum, file) => sum + file.transferSize, 0) }";

/// Follows a transcript to its end, frame by frame.
const FOLLOWS: &str = "return new Promise((done) => {
      const took = [];
      let last = 0;
      const step = (now) => {
        if (last) took.push(now - last);
        last = now;
        scrollTo(0, document.body.scrollHeight);
        if (document.getElementById('end') || took.length > 1400)
          return done({ took, entries: document.querySelectorAll('.transcript > li').length });
        requestAnimationFrame(step);
      };
      requestAnimationFrame(step);
    })";

/// Scrolls a long transcript up to its beginning, or for a while; returns the durations of frames and the
/// number of entries at the end.
const SCROLLS: &str = "return new Promise((done) => {
      const took = [];
      let last = 0;
      scrollTo(0, document.body.scrollHeight);
      const step = (now) => {
        if (last) took.push(now - last);
        last = now;
        const earlier = document.getElementById('earlier'), room = earlier.hidden ? scrollY : -earlier.getBoundingClientRect().bottom;
        const isAtTop = scrollY === 0 && earlier.hidden;
        if (isAtTop || took.length > 1200) return done({ took, entries: document.querySelectorAll('.transcript > li').length });
        // Nobody scrolls beyond what is there.
        scrollBy(0, -Math.max(0, Math.min(1500, room - (earlier.hidden ? 0 : 200))));
        requestAnimationFrame(step);
      };
      setTimeout(() => requestAnimationFrame(step), 500);
    })";

/// Zooms a graph in and out and moves it; returns the durations of frames.
const ZOOMS: &str = "return new Promise((done) => {
      const box = document.querySelector('.graph'), took = [];
      let last = 0;
      const step = (now) => {
        if (last) took.push(now - last);
        last = now;
        const n = took.length;
        if (n > 200) return done({ took, boxes: box.querySelectorAll('a').length });
        if (n % 20 === 0) document.querySelector(`[data-zoom=${n % 40 ? 'in' : 'out'}]`).click();
        box.scrollBy(n % 100 < 50 ? 60 : -60, n % 40 < 20 ? 40 : -40);
        requestAnimationFrame(step);
      };
      requestAnimationFrame(step);
    })";

pub async fn page(servers: &Servers, figures: &mut Figures) -> anyhow::Result<()> {
    if !Browser::is_installed().await {
        return Ok(());
    }
    let mut system = System::fresh(servers, "page").await?;
    let coordinator = system.start_coordinator()?;
    system.until_served().await?;
    let api = system.api()?;
    for n in 0..FEATURES {
        submit(&api, &format!("feature-{n}"), load::layered(LAYERS, WIDTH)).await?;
    }
    let before = resident_bytes(coordinator)?;
    open_pages(&api, coordinator, before, figures).await?;
    let browser = Browser::open().await;
    let home = format!("http://{}", api.address);
    browser.go(&format!("{home}{}", login(&api).await?)).await;
    browser.shows("Needs you").await;
    first_views(&browser, &home, figures).await?;
    changes(&browser, &home, &api, figures).await?;
    graphs(&browser, &home, &api, figures).await?;
    transcript(&system, &browser, &home, &api, figures).await?;
    browser.close().await;
    system.stop_coordinator().await;
    Ok(())
}

/// Submits tasks that no worker takes.
async fn submit(api: &Api, name: &str, text: String) -> anyhow::Result<()> {
    let tasks = json!({"source": "tasks.json", "text": text});
    let body = json!({"name": name, "verify": false, "pool": "nobody", "tasks": tasks});
    api.request("POST", "/features", &body.to_string()).await?;
    Ok(())
}

/// Path of a link that logs in.
async fn login(api: &Api) -> anyhow::Result<String> {
    let made: Value = serde_json::from_str(&api.request("POST", "/logins", "").await?)?;
    Ok(made["path"]
        .as_str()
        .context("a login without a path")?
        .to_owned())
}

async fn loads(browser: &Browser, address: &str) -> anyhow::Result<Value> {
    browser.devtools("Network.clearBrowserCache", json!({})).await;
    browser.go(address).await;
    let began = now();
    loop {
        let times = browser.run(TIMES).await;
        if times.is_object() {
            return Ok(times);
        }
        ensure!(now() - began < 30.0, "{address} paints nothing");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn number(of: &Value, field: &str) -> f64 {
    of[field].as_f64().unwrap_or(f64::NAN)
}

async fn first_views(browser: &Browser, home: &str, figures: &mut Figures) -> anyhow::Result<()> {
    let (mut slowest, mut heaviest) = (0.0_f64, 0.0_f64);
    for path in [
        "/",
        "/log",
        "/features",
        "/features/feature-7",
        "/features/feature-7/tasks",
    ] {
        let times = loads(browser, &format!("{home}{path}")).await?;
        eprintln!("  {path}: {times}");
        slowest = slowest.max(number(&times, "painted"));
        heaviest = heaviest.max(number(&times, "bytes") / 1_000.0);
    }
    let name = "page, first view after the answer begins, slowest of five";
    figures.at_most(name, "ms", slowest, 300.0);
    let name = "page, transferred with script and styles, heaviest of five";
    figures.at_most(name, "kB", heaviest, 150.0);
    Ok(())
}

/// The slowest time from a request that changes a state, including its commit, to the paint of the change.
async fn changes(browser: &Browser, home: &str, api: &Api, figures: &mut Figures) -> anyhow::Result<()> {
    let mut slowest = 0.0_f64;
    for n in 0..CHANGES {
        browser.go(&format!("{home}/features/feature-{n}")).await;
        tokio::time::sleep(SETTLED).await;
        let watch = "new MutationObserver(() => {
              if (!window.seen && document.querySelector('#head .state').textContent.includes('cancelled'))
                requestAnimationFrame(() => { window.seen = Date.now(); });
            }).observe(document.querySelector('main'), { subtree: true, childList: true, characterData: true, attributes: true })";
        browser.run(watch).await;
        let began = now() * 1_000.0;
        api.request("POST", &format!("/features/feature-{n}/cancel"), "{}")
            .await?;
        let asked = now();
        let seen = loop {
            if let Some(seen) = browser.run("return window.seen || null").await.as_f64() {
                break seen;
            }
            ensure!(now() - asked < 30.0, "a change is not shown");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        slowest = slowest.max(seen - began);
    }
    let name = "page, a change of a state is seen after its request, slowest of ten";
    figures.at_most(name, "ms", slowest, 500.0);
    Ok(())
}

async fn graphs(browser: &Browser, home: &str, api: &Api, figures: &mut Figures) -> anyhow::Result<()> {
    submit(api, "thousand", load::layered(10, 100)).await?;
    submit(api, "large", load::layered(100, 1_000)).await?;
    submit(api, "chain", load::chain(100_000)).await?;
    for (feature, what) in [
        ("thousand", "1,000"),
        ("large", "100,000"),
        ("chain", "100,000 in a chain"),
    ] {
        let times = loads(browser, &format!("{home}/features/{feature}")).await?;
        let name = format!("page, a graph of {what} tasks from the click to the end");
        figures.add(&name, "ms", number(&times, "loaded"));
        if feature == "thousand" {
            figures.target(&name, Target::AtMost(500.0));
        }
        let zoomed = browser.run(ZOOMS).await;
        eprintln!("  {} boxes", zoomed["boxes"]);
        frames(
            &format!("page, a graph of {what} tasks moved and zoomed"),
            &zoomed,
            None,
            figures,
        );
    }
    Ok(())
}

/// Adds the slowest frame and the 99th percentile.
fn frames(what: &str, result: &Value, most: Option<f64>, figures: &mut Figures) {
    let took: Vec<f64> = result["took"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_f64)
        .collect();
    figures.add(&format!("{what}, 99 of 100 frames"), "ms", percentile(&took, 99));
    let name = format!("{what}, slowest frame");
    figures.add(&name, "ms", percentile(&took, 100));
    if let Some(most) = most {
        figures.target(&name, Target::AtMost(most));
    }
}

/// Follows a session of very many entries while it runs, then scrolls back through them.
async fn transcript(
    system: &System,
    browser: &Browser,
    home: &str,
    api: &Api,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let worker = system.start_worker("page", 1)?;
    // One of four updates belongs to the call of an earlier one.
    let script = format!("@stream {}\n@wait 3000\n@done", ENTRIES * 4 / 3 + 4);
    let tasks = json!({"source": "t", "text": load::scripted([script.as_str()])});
    let body = json!({"name": "long", "verify": false, "tasks": tasks});
    api.request("POST", "/features", &body.to_string()).await?;
    system
        .until("the session begins", async || {
            Ok(api
                .request("GET", "/features/long/progress", "")
                .await?
                .contains("\"attempt\":1"))
        })
        .await?;
    browser.go(&format!("{home}/tasks/long%2Fk0")).await;
    let followed = browser.run(FOLLOWS).await;
    eprintln!("  {} entries stay in the page", followed["entries"]);
    frames(
        "page, a session of 50,000 entries followed",
        &followed,
        None,
        figures,
    );
    system
        .until("the task is done", async || {
            Ok(api
                .request("GET", "/tasks/long%2Fk0", "")
                .await?
                .contains("\"status\":\"done\""))
        })
        .await?;
    let times = loads(browser, &format!("{home}/tasks/long%2Fk0")).await?;
    figures.add(
        "page, a transcript of 50,000 entries opened",
        "ms",
        number(&times, "loaded"),
    );
    let scrolled = browser.run(SCROLLS).await;
    eprintln!("  {} entries were scrolled", scrolled["entries"]);
    frames(
        "page, a transcript of 50,000 entries scrolled",
        &scrolled,
        Some(50.0),
        figures,
    );
    worker.stop().await;
    Ok(())
}

/// Opens pages like browsers, and leaves them open.
async fn open_pages(api: &Api, coordinator: u32, before: u64, figures: &mut Figures) -> anyhow::Result<()> {
    let code = login(api).await?;
    let code = code.split_once("code=").context("a login without a code")?.1;
    let form = format!("code={code}&then=%2F");
    let head = format!(
        "POST /login HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{form}",
        api.address,
        form.len()
    );
    let answer = whole(api, &head).await?;
    let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = cookie
        .and_then(|cookie| cookie.split(';').next())
        .context("no session")?;
    let get = |path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\nx-ralph-live: 1\r\nAccept-Encoding: br\r\nConnection: close\r\n\r\n",
            api.address
        )
    };
    let look = async |n: usize| whole(api, &get(&format!("/features/feature-{}", n % FEATURES))).await;
    let (get, look) = (&get, &look);
    let streams = try_join_all((0..OPEN_PAGES).map(|n| async move {
        let mut stream = TcpStream::connect(api.address).await?;
        stream.write_all(get("/live").as_bytes()).await?;
        let mut buffer = [0; 512];
        ensure!(stream.read(&mut buffer).await? > 0, "a stream ended");
        look(n).await?;
        anyhow::Ok(stream)
    }))
    .await?;
    tokio::time::sleep(SETTLED).await;
    let (cpu, began) = (cpu_seconds(coordinator)?, tokio::time::Instant::now());
    for n in 0..OPEN_PAGES {
        look(n).await?;
        tokio::time::sleep_until(began + WATCHED * u32::try_from(n + 1)? / u32::try_from(OPEN_PAGES)?).await;
    }
    let share = (cpu_seconds(coordinator)? - cpu) / WATCHED.as_secs_f64() * 100.0;
    let more = resident_bytes(coordinator)?.saturating_sub(before) as f64 / MIB;
    drop(streams);
    let name = "page, 100 open, coordinator's memory";
    figures.at_most(name, "MiB", more, 100.0);
    let name = "page, 100 open and idle, coordinator's processor";
    figures.at_most(name, "%", share, 10.0);
    Ok(())
}

/// Sends a request and reads the whole response.
async fn whole(api: &Api, request: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(api.address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    ensure!(
        answer.starts_with("HTTP/1.1 20") || answer.starts_with("HTTP/1.1 303"),
        "refused: {}",
        answer.chars().take(500).collect::<String>()
    );
    Ok(answer)
}
