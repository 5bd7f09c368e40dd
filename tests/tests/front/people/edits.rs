use ralph_tests::harness::World;
use reqwest::Method;
use serde_json::{Value, json};

use crate::caller::{ADMIN, Api};

async fn ids(api: &Api, feature: &str) -> Vec<String> {
    let (_, page) = api.get(&format!("/features/{feature}/tasks")).await;
    let items = page["items"].as_array().unwrap();
    items
        .iter()
        .map(|t| t["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn an_edited_task_is_queued_again_with_its_new_values() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("f", "- {key: a, title: A}\n- {key: b, title: B, after: [a]}")
        .await;
    let ids = ids(&api, "f").await;
    let edit = async |id: &str, body: Value| {
        let path = format!("/api/v1/tasks/{id}");
        let response = api
            .send(Method::PATCH, &path, Some(ADMIN), Some(body.to_string()))
            .await;
        (
            response.status().as_u16(),
            response.json::<Value>().await.unwrap(),
        )
    };
    let change =
        json!({"title": "A again", "priority": -5, "pool": "gpu", "max_retries": 7, "verify": false});
    assert_eq!(edit(&ids[0], change).await.0, 200);
    let (_, shown) = api.get(&format!("/tasks/{}", ids[0])).await;
    for (field, value) in [
        ("title", json!("A again")),
        ("priority", json!(-5)),
        ("pool", json!("gpu")),
        ("max_retries", json!(7)),
        ("verify", json!(false)),
        ("description", json!("")),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    let queued: (String, i32) = sqlx::query_as("select pool, priority from ready_tasks")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(queued, ("gpu".to_owned(), -5));

    // A blocked task is edited, but not queued before its time.
    assert_eq!(edit(&ids[1], json!({"priority": 3})).await.0, 200);
    let n: i64 = sqlx::query_scalar("select count(*) from ready_tasks")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(n, 1);

    for (wrong, status) in [
        (json!({}), 422),
        (json!({"title": " "}), 422),
        (json!({"pool": "A"}), 422),
        (json!({"max_retries": 101}), 422),
        (json!({"colour": 1}), 400),
    ] {
        assert_eq!(edit(&ids[0], wrong.clone()).await.0, status, "{wrong}");
    }
    api.post(&format!("/tasks/{}/done", ids[0]), &json!({})).await;
    let (status, problem) = edit(&ids[0], json!({"title": "Too late"})).await;
    assert_eq!(status, 409, "{problem}");
    let again = format!("`task revert {} --redo`", ids[0]);
    assert!(problem["detail"].as_str().unwrap().contains(&again), "{problem}");
    for (verb, words) in [("done", "is done already"), ("retry", again.as_str())] {
        let (status, problem) = api.post(&format!("/tasks/{}/{verb}", ids[0]), &json!({})).await;
        assert_eq!(status.as_u16(), 409, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
    }
}

#[tokio::test]
async fn a_feature_is_deleted_with_its_rows_unless_it_runs() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("f", "- {key: a, title: A}\n- {key: b, title: B, parent: a}")
        .await;
    api.submit("g", "- {key: a, title: A}").await;
    let delete = async |name: &str| {
        let response = api
            .send(
                Method::DELETE,
                &format!("/api/v1/features/{name}"),
                Some(ADMIN),
                None,
            )
            .await;
        response.status().as_u16()
    };
    assert_eq!(delete("f").await, 409);
    api.post("/features/f/cancel", &json!({})).await;
    assert_eq!(delete("f").await, 200);
    assert_eq!(delete("f").await, 404);
    let (_, remaining) = api.get("/features").await;
    assert_eq!(remaining["items"].as_array().unwrap().len(), 1);
    for table in ["tasks", "ready_tasks", "runs", "features"] {
        let n: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("select count(*) from {table}")))
            .fetch_one(&world.db)
            .await
            .unwrap();
        assert_eq!(n, 1, "{table} has only the other feature's rows");
    }
}

#[tokio::test]
async fn a_token_works_until_it_is_revoked() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let (status, made) = api
        .post("/tokens", &json!({"name": "dashboard", "role": "read"}))
        .await;
    assert_eq!(status.as_u16(), 201, "{made}");
    let token = made["token"].as_str().unwrap().to_owned();
    let works = async |token: &str| {
        let response = api.send(Method::GET, "/api/v1/status", Some(token), None).await;
        response.status().as_u16()
    };
    assert_eq!(works(&token).await, 200);
    let (status, _) = api
        .post("/tokens", &json!({"name": "dashboard", "role": "admin"}))
        .await;
    assert_eq!(status.as_u16(), 409);
    let (_, list) = api.get("/tokens").await;
    assert!(!list.to_string().contains(&token), "a token is shown only once");

    let path = "/api/v1/tokens/dashboard";
    assert_eq!(
        api.send(Method::DELETE, path, Some(ADMIN), None)
            .await
            .status()
            .as_u16(),
        200
    );
    assert_eq!(works(&token).await, 401);
    assert_eq!(
        api.send(Method::DELETE, path, Some(ADMIN), None)
            .await
            .status()
            .as_u16(),
        404
    );
    // The name is free again.
    let (status, again) = api
        .post("/tokens", &json!({"name": "dashboard", "role": "submit"}))
        .await;
    assert_eq!(status.as_u16(), 201, "{again}");
    assert_eq!(works(&token).await, 401);
    assert_eq!(works(again["token"].as_str().unwrap()).await, 200);
}

#[tokio::test]
async fn a_task_of_a_folder_stays_with_the_folders_machine() {
    let world = World::calm().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("f", "- {key: a, title: A}").await;
    let pool = ralph_shared::machine::dir_pool();
    let made = sqlx::query("update features set dir = '/notes', max_parallel = 1")
        .execute(&world.db)
        .await;
    assert_eq!(made.unwrap().rows_affected(), 1);
    let pooled = sqlx::query("update task_texts set pool = $1")
        .bind(pool)
        .execute(&world.db)
        .await;
    assert_eq!(pooled.unwrap().rows_affected(), 1);
    let edit = async |body: Value| {
        let path = "/api/v1/tasks/f%2Fa";
        let response = api
            .send(Method::PATCH, path, Some(ADMIN), Some(body.to_string()))
            .await;
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let (status, words) = edit(json!({"pool": "default"})).await;
    assert!(
        status == 422 && words.contains("omit `pool`"),
        "{status}: {words}"
    );
    assert_eq!(edit(json!({"priority": 3})).await.0, 200);
}

#[tokio::test]
async fn a_reason_too_long_for_a_prompt_is_refused() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("f", "- {key: a, title: A}").await;
    let (task, words) = (ids(&api, "f").await.remove(0), "ä".repeat(8_000));
    for command in ["feedback", "retry", "reject", "interrupt", "revert"] {
        for (reason, expected) in [(format!("{words}ä"), 422), (words.clone(), 409)] {
            let path = format!("/tasks/{task}/{command}");
            let (status, answer) = api.post(&path, &json!({"reason": reason})).await;
            assert_eq!(status.as_u16(), expected, "{command}: {answer}");
        }
    }
}
