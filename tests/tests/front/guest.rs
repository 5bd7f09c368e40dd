//! A client that asks for pages as browsers do.

use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, Method, Response, StatusCode, redirect};
use serde_json::Value;

use crate::caller::Api;

pub const READ: &str = "read-token-of-this-test";
pub const SUBMIT: &str = "submit-token-of-this-test";
/// A title with markup, a change of direction and hidden characters.
pub const HOSTILE: &str = "<script>document.title='taken'</script><b>bold\u{202e}\u{200b}</b>";

/// Creates a login link with a token.
pub async fn link(api: &Api, token: &str) -> String {
    let made = api.send(Method::POST, "/api/v1/logins", Some(token), None).await;
    assert_eq!(made.status(), StatusCode::CREATED);
    let made: Value = made.json().await.unwrap();
    format!("{}{}", api.url, made["path"].as_str().unwrap())
}

/// A client that asks as browsers do, and follows no redirect.
pub struct Guest<'a> {
    api: &'a Api,
    http: Client,
    pub cookie: Option<String>,
}

impl<'a> Guest<'a> {
    pub fn new(api: &'a Api) -> Self {
        let http = Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .build()
            .unwrap();
        Self {
            api,
            http,
            cookie: None,
        }
    }

    pub async fn logged_in(api: &'a Api, token: &str) -> Self {
        let mut guest = Self::new(api);
        let code = link(api, token).await.split_once("code=").unwrap().1.to_owned();
        let answer = guest.post("/login", &[("code", &code)], &[]).await;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
        assert!(
            cookie.contains("; HttpOnly; SameSite=Strict") && !cookie.contains("Secure"),
            "{cookie}"
        );
        guest.cookie = Some(cookie.split(';').next().unwrap().to_owned());
        guest
    }

    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        form: Option<String>,
        headers: &[(&'static str, &str)],
    ) -> Response {
        let mut all = HeaderMap::new();
        if let Some(cookie) = &self.cookie {
            all.insert("cookie", HeaderValue::from_str(cookie).unwrap());
        }
        for (name, value) in headers {
            all.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.api.url))
            .headers(all);
        if let Some(form) = form {
            request = request
                .header("content-type", "application/x-www-form-urlencoded")
                .body(form);
        }
        request.send().await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Response {
        self.ask(Method::GET, path, None, &[]).await
    }

    pub async fn post(
        &self,
        path: &str,
        fields: &[(&str, &str)],
        headers: &[(&'static str, &str)],
    ) -> Response {
        let plain = |text: &str| {
            text.bytes()
                .map(|byte| format!("%{byte:02X}"))
                .collect::<String>()
        };
        let form: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", plain(value)))
            .collect();
        self.ask(Method::POST, path, Some(form.join("&")), headers).await
    }

    /// CSRF token of this session's forms.
    pub async fn csrf(&self) -> String {
        let page = self.get("/").await.text().await.unwrap();
        let (_, rest) = page.split_once("name=\"csrf\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}
