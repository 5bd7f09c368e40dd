//! The web page over plain HTTP.

use ralph_tests::harness::World;
use reqwest::header::HeaderValue;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::caller::{ADMIN, Api};
use crate::guest::{Guest, HOSTILE, READ, SUBMIT, link};
use crate::stage::Stage;

#[tokio::test]
async fn every_response_keeps_foreign_content_out() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let guest = Guest::logged_in(&api, ADMIN).await;
    for path in [
        "/",
        "/log",
        "/features",
        "/workers",
        "/memory",
        "/settings",
        "/login",
        "/tasks/t-0123",
        "/do/x/y",
    ] {
        let answer = guest.get(path).await;
        let status = answer.status().as_u16();
        let headers = answer.headers();
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
            "{policy}"
        );
        assert!(
            policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"),
            "{policy}"
        );
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["referrer-policy"], "same-origin", "{path}");
        assert_eq!(headers["cache-control"], "no-store", "{path}");
        let page = answer.text().await.unwrap();
        for foreign in ["<style", "style=\"", "<script>", "onclick", "http://", "https://"] {
            assert!(!page.contains(foreign), "{path}: {foreign}");
        }
        let expected = match path {
            "/tasks/t-0123" => 404,
            "/do/x/y" => 405,
            _ => 200,
        };
        assert_eq!(status, expected, "{path}");
    }
    // Assets are immutable and compressed.
    let page = guest.get("/").await.text().await.unwrap();
    for ending in [".css\"", ".js\""] {
        let path = page
            .split('"')
            .find(|part| part.starts_with("/assets/") && format!("{part}\"").ends_with(ending));
        let file = guest
            .ask(
                Method::GET,
                path.unwrap(),
                None,
                &[("accept-encoding", "gzip, br")],
            )
            .await;
        assert_eq!(
            file.headers()["cache-control"],
            "public, max-age=31536000, immutable"
        );
        assert_eq!(file.headers()["content-encoding"], "br");
    }
    assert_eq!(
        guest.get("/assets/page-0.js").await.status(),
        StatusCode::NOT_FOUND
    );
    // A page session gives no access to the API.
    let answer = guest.get("/api/v1/status").await;
    assert_eq!(
        answer.status(),
        StatusCode::UNAUTHORIZED,
        "the API takes no page session"
    );
    assert_eq!(guest.get("/api/docs").await.status(), StatusCode::OK);
    assert_eq!(guest.get("/healthz").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_login_link_works_once_and_a_session_can_end_in_three_ways() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let guest = Guest::new(&api);
    let led = guest.get("/log?since=7d").await;
    assert_eq!(led.headers()["location"], "/login?then=%2Flog%3Fsince%3D7d");
    let code = link(&api, READ).await.split_once("code=").unwrap().1.to_owned();
    // Opening the link does not use it up.
    assert_eq!(
        guest.get(&format!("/login?code={code}")).await.status(),
        StatusCode::OK
    );
    let then = |to: &'static str| [("code", code.as_str()), ("then", to)];
    let first = guest.post("/login", &then("//evil.example"), &[]).await;
    assert_eq!(
        (first.status(), &first.headers()["location"]),
        (StatusCode::SEE_OTHER, &HeaderValue::from_static("/"))
    );
    let again = guest.post("/login", &then("/"), &[]).await;
    assert_eq!(again.status(), StatusCode::FORBIDDEN);
    assert!(again.text().await.unwrap().contains("ralph open"));
    let wrong = guest.post("/login", &[("token", "nonsense")], &[]).await;
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
    let late = link(&api, READ).await.split_once("code=").unwrap().1.to_owned();
    sqlx::query("update page_logins set expires_at = now()")
        .execute(&world.db)
        .await
        .unwrap();
    assert_eq!(
        guest.post("/login", &[("code", &late)], &[]).await.status(),
        StatusCode::FORBIDDEN
    );

    // A pasted token logs in too. A session ends by logout, expiry or revocation.
    let pasted = guest
        .post("/login", &[("token", SUBMIT), ("then", "/log")], &[])
        .await;
    assert_eq!(pasted.headers()["location"], "/log");
    let session = Guest::logged_in(&api, SUBMIT).await;
    assert_eq!(session.get("/").await.status(), StatusCode::OK);
    let csrf = session.csrf().await;
    assert_eq!(
        session.post("/logout", &[], &[]).await.status(),
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        session.post("/logout", &[("csrf", &csrf)], &[]).await.status(),
        StatusCode::SEE_OTHER
    );
    assert_eq!(session.get("/").await.headers()["location"], "/login?then=%2F");
    let session = Guest::logged_in(&api, SUBMIT).await;
    sqlx::query("update page_logins set expires_at = now()")
        .execute(&world.db)
        .await
        .unwrap();
    assert_eq!(session.get("/").await.headers()["location"], "/login?then=%2F");
    let session = Guest::logged_in(&api, SUBMIT).await;
    sqlx::query("update api_tokens set revoked_at = now() where name = 'submit'")
        .execute(&world.db)
        .await
        .unwrap();
    assert_eq!(session.get("/").await.headers()["location"], "/login?then=%2F");
    // Another coordinator knows the session and its logout.
    sqlx::query("update api_tokens set revoked_at = null where name = 'submit'")
        .execute(&world.db)
        .await
        .unwrap();
    let other = Api::start(&world).await;
    let secret = session
        .cookie
        .as_ref()
        .unwrap()
        .split_once('=')
        .unwrap()
        .1
        .to_owned();
    let (_, port) = other.url.rsplit_once(':').unwrap();
    let mut moved = Guest::new(&other);
    moved.cookie = Some(format!("theme=dark; ralph-{port}={secret}"));
    let log = moved.get("/log").await;
    assert_eq!(log.status(), StatusCode::OK);
    assert!(log.text().await.unwrap().contains("<h1>What happened</h1>"));
    let earlier =
        "update page_logins set seen_at = now() - interval '1 hour', left_at = null where expires_at > now()";
    sqlx::query(earlier).execute(&world.db).await.unwrap();
    moved.get("/log").await;
    let log = moved.get("/log").await.text().await.unwrap();
    assert!(log.contains("<h1>Since you left</h1>"), "{log}");
    sqlx::query("update api_tokens set revoked_at = now() where name = 'submit'")
        .execute(&world.db)
        .await
        .unwrap();
    // A script gets an error instead of a redirect.
    let refused = session
        .ask(Method::GET, "/", None, &[("x-ralph-live", "1")])
        .await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn foreign_origins_foreign_forms_and_readers_change_nothing() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("todo", "- {key: a, title: A}").await;
    let guest = Guest::logged_in(&api, SUBMIT).await;
    let csrf = guest.csrf().await;
    let fields = [("csrf", csrf.as_str()), ("of", "todo"), ("back", "/features")];
    for headers in [
        &[("origin", "https://evil.example")][..],
        &[("origin", "null")],
        &[("origin", "http://127.0.0.1:1")],
        &[("sec-fetch-site", "cross-site")],
        &[("host", "evil.example")],
    ] {
        let refused = guest.post("/do/feature/cancel", &fields, headers).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{headers:?}");
    }
    assert_eq!(
        guest
            .ask(Method::GET, "/", None, &[("host", "evil.example:80")])
            .await
            .status(),
        StatusCode::FORBIDDEN
    );
    let other = Guest::logged_in(&api, SUBMIT).await.csrf().await;
    for foreign in ["", "x", other.as_str()] {
        let refused = guest
            .post("/do/feature/cancel", &[("csrf", foreign), ("of", "todo")], &[])
            .await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    }
    // A reader sees no actions and can take none.
    let reader = Guest::logged_in(&api, READ).await;
    let page = reader.get("/features/todo").await.text().await.unwrap();
    assert!(page.contains("todo") && !page.contains("/do/"), "{page}");
    let csrf_of_reader = reader.csrf().await;
    let refused = reader
        .post(
            "/do/feature/cancel",
            &[("csrf", &csrf_of_reader), ("of", "todo")],
            &[],
        )
        .await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    assert!(refused.text().await.unwrap().contains("role `submit`"));
    let drain = [("csrf", csrf.as_str()), ("of", "w")];
    assert_eq!(
        guest.post("/do/worker/drain", &drain, &[]).await.status(),
        StatusCode::FORBIDDEN
    );
    let state: String = sqlx::query_scalar("select state::text from features")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_ne!(state, "cancelled");

    // The page's own form works once, under its token's name; a repeat gets the API's error.
    let origin = [("origin", api.url.as_str()), ("sec-fetch-site", "same-origin")];
    let done = guest.post("/do/feature/cancel", &fields, &origin).await;
    assert_eq!(done.headers()["location"], "/features?did=Cancelled");
    let again = guest.post("/do/feature/cancel", &fields, &origin).await;
    assert_eq!(again.status(), StatusCode::CONFLICT);
    let (actor, verb): (String, String) =
        sqlx::query_as("select actor, verb from changes where name = 'todo' order by id desc limit 1")
            .fetch_one(&world.db)
            .await
            .unwrap();
    assert_eq!((actor.as_str(), verb.as_str()), ("submit", "cancel"));
}

#[tokio::test]
async fn agent_output_is_shown_as_bounded_plain_text() {
    let stage = Stage::start().await;
    let description = "@say \\e[31mred\\e[0m <img src=x onerror=alert(1)> \u{202e}turned\u{200b}\n@long-line 2M\n@run printf '\\377\\000<b>'\n\
                       @write a.txt <script>alert(1)</script>\n@run printf '\\377\\000<b>' > image.png\n\
                       @run head -c 1000000 /dev/zero | tr '\\0' x > long.rs\n@done";
    let tasks = json!([{"key": "a", "title": HOSTILE, "description": description}]).to_string();
    stage
        .submit(json!({"verify": true, "tasks": {"source": "t", "text": tasks}, "run": {"cost_usd": 1000.0}}))
        .await;
    stage.ends("complete").await;
    let guest = Guest::logged_in(&stage.api, READ).await;
    let (_, tasks) = stage.api.get("/features/f/tasks").await;
    let id = tasks["items"][0]["id"].as_str().unwrap();
    for path in ["", "/prompt", "/diff", "/log"] {
        let page = guest.get(&format!("/tasks/{id}{path}")).await;
        assert_eq!(page.status(), StatusCode::OK, "{path}");
        let page = page.text().await.unwrap();
        assert!(page.len() < 300_000, "{path}: {}", page.len());
        assert!(page.contains("&lt;b&gt;bold&lt;/b&gt;"), "{path}: {page}");
        for bad in [
            "<img",
            "<b>",
            "alert(1)</script>",
            "\u{1b}",
            "\u{202e}",
            "\u{200b}",
            "\u{0}",
        ] {
            assert!(!page.contains(bad), "{path}: {bad:?}: {page}");
        }
    }
    let page = guest.get(&format!("/tasks/{id}")).await.text().await.unwrap();
    assert!(
        page.contains("red &lt;img src=x onerror=alert(1)&gt; turned"),
        "{page}"
    );
    let diff = guest
        .get(&format!("/tasks/{id}/diff"))
        .await
        .text()
        .await
        .unwrap();
    for shown in [
        "+&lt;script&gt;alert(1)&lt;/script&gt;",
        "Binary files ",
        "reported only this beginning",
    ] {
        assert!(diff.contains(shown), "{shown}: {diff}");
    }
    // A text in the address does not appear on the page.
    let page = guest
        .get(&format!("/tasks/{id}?did=Call+this+number"))
        .await
        .text()
        .await
        .unwrap();
    assert!(!page.contains("Call this number"));
}

#[tokio::test]
async fn ten_thousand_tasks_make_small_pages() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    for n in 0..20 {
        let tasks: Vec<Value> = (0..500)
            .map(|task| {
                let after = match task {
                    0 => json!([]),
                    task => json!([format!("t{}", task / 3)]),
                };
                json!({"key": format!("t{task}"), "title": format!("Do the part {task} of {n}"), "after": after})
            })
            .collect();
        api.submit(&format!("feature-{n}"), &json!(tasks).to_string())
            .await;
    }
    let guest = Guest::logged_in(&api, READ).await;
    for path in [
        "/",
        "/log",
        "/features",
        "/features/feature-7",
        "/features/feature-7/tasks",
    ] {
        let began = std::time::Instant::now();
        let page = guest
            .ask(Method::GET, path, None, &[("accept-encoding", "br")])
            .await;
        assert_eq!(page.status(), StatusCode::OK, "{path}");
        let size = page.bytes().await.unwrap().len();
        println!("{path}: {size} bytes in {:?}", began.elapsed());
        assert!(size < 150_000, "{path}: {size}");
    }
}

#[tokio::test]
async fn forms_raise_limits_and_edit_memory() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("todo", "- {key: a, title: A}").await;
    let guest = Guest::logged_in(&api, SUBMIT).await;
    let csrf = guest.csrf().await;
    let act = async |path: &str, fields: &[(&str, &str)]| {
        let mut all = vec![("csrf", csrf.as_str())];
        all.extend(fields);
        let answer = guest.post(path, &all, &[]).await;
        let location = answer
            .headers()
            .get("location")
            .map(|to| to.to_str().unwrap().to_owned());
        (answer.status().as_u16(), location.unwrap_or_default())
    };
    let raised = |value| {
        [
            ("of", "todo"),
            ("flag", "--max-cost"),
            ("value", value),
            ("back", "/features/todo#facts"),
        ]
    };
    let (status, to) = act("/do/feature/limit", &raised("33.5")).await;
    assert_eq!(
        (status, to.as_str()),
        (303, "/features/todo?did=The%20limit%20is%20raised#facts")
    );
    let (_, feature) = api.get("/features/todo").await;
    assert_eq!(feature["run"]["limits"]["cost_usd"], 33.5, "{feature}");
    assert_eq!(act("/do/feature/limit", &raised("lots")).await.0, 422);
    assert_eq!(act("/do/feature/fly", &[("of", "todo")]).await.0, 404);
    assert_eq!(act("/do/task/retry", &[("of", "todo/nothing")]).await.0, 404);

    let entry = json!({"repo": "r", "kind": "learning", "title": "Serials wrap", "body": "At <2^32>."});
    let (_, entry) = api.post("/memory", &entry).await;
    let id = entry["id"].as_str().unwrap();
    let shown = async |path: &str| {
        let page = guest.get(path).await;
        assert_eq!(page.status(), StatusCode::OK, "{path}");
        page.text().await.unwrap()
    };
    let address = format!("/memory/{id}");
    assert!(shown("/memory").await.contains("Serials wrap"));
    assert!(shown(&address).await.contains("At &lt;2^32&gt;."));
    assert!(
        shown("/memory?q=Serials&repo=r&kind=learning")
            .await
            .contains("would be shown")
    );
    let changed = [
        ("of", id),
        ("title", "Serials wrap"),
        ("body", "At 2^32\r\nand not before."),
        ("back", &address),
    ];
    assert_eq!(act("/do/memory/edit", &changed).await.0, 303);
    assert!(shown(&address).await.contains("At 2^32\nand not before."));
    for (verb, word) in [("prune", "pruned"), ("restore", "live")] {
        assert_eq!(
            act(&format!("/do/memory/{verb}"), &[("of", id), ("back", &address)])
                .await
                .0,
            303
        );
        let page = shown(&address).await;
        assert!(
            page.contains(&format!("<span class=\"state\">{word}</span>")),
            "{page}"
        );
    }
}
