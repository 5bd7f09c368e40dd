//! Webhooks that make copies of features.

pub use ralph_api::view::HookView;
use ralph_shared::ids::FeatureId;
use sqlx::PgConnection;
use time::OffsetDateTime;

/// Creates a hook; `false` when its name is taken.
pub async fn create(
    conn: &mut PgConnection,
    name: &str,
    feature: FeatureId,
    secret: &str,
) -> sqlx::Result<bool> {
    let made = sqlx::query!(
        "insert into hooks (name, feature_id, secret) values ($1, $2, $3) on conflict (name) do nothing",
        name,
        feature.0,
        secret,
    )
    .execute(conn)
    .await?;
    Ok(made.rows_affected() == 1)
}

/// Removes a hook; `false` when it does not exist.
pub async fn remove(conn: &mut PgConnection, name: &str) -> sqlx::Result<bool> {
    let gone = sqlx::query!("delete from hooks where name = $1", name)
        .execute(conn)
        .await?;
    Ok(gone.rows_affected() == 1)
}

/// All hooks, at most 1,000.
pub async fn list(conn: &mut PgConnection) -> sqlx::Result<Vec<HookView>> {
    sqlx::query_as!(
        HookView,
        r#"select h.name, f.name as feature, h.created_at, h.fired_at, m.name as "made?", h.problem
           from hooks h
           join features f on f.id = h.feature_id
           left join features m on m.id = h.made_id
           order by h.name
           limit 1000"#,
    )
    .fetch_all(conn)
    .await
}

pub async fn secret(conn: &mut PgConnection, name: &str) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!("select secret from hooks where name = $1", name)
        .fetch_optional(conn)
        .await
}

/// A delivery of a locked hook.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// A new delivery, for a copy of this feature; with the database's time.
    First(FeatureId, OffsetDateTime),
    /// A repeated delivery, and the copy that the first one made.
    Again(Option<FeatureId>),
    NoHook,
}

/// Locks the hook and records the delivery, unless it came before.
pub async fn deliver(conn: &mut PgConnection, hook: &str, delivery: &str) -> sqlx::Result<Delivery> {
    let row = sqlx::query!(
        r#"select feature_id, now() as "now!" from hooks where name = $1 for no key update"#,
        hook
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else {
        return Ok(Delivery::NoHook);
    };
    let noted = sqlx::query!(
        "insert into hook_deliveries (hook, delivery) values ($1, $2) on conflict do nothing",
        hook,
        delivery,
    )
    .execute(&mut *conn)
    .await?;
    if noted.rows_affected() == 1 {
        return Ok(Delivery::First(FeatureId(row.feature_id), row.now));
    }
    let made = sqlx::query_scalar!(
        "select made_id from hook_deliveries where hook = $1 and delivery = $2",
        hook,
        delivery,
    )
    .fetch_optional(conn)
    .await?;
    Ok(Delivery::Again(made.flatten().map(FeatureId)))
}

/// Records the copy of a delivery, or the error; after an error the delivery may be repeated.
pub async fn fired(
    conn: &mut PgConnection,
    hook: &str,
    delivery: &str,
    made: &Result<FeatureId, String>,
) -> sqlx::Result<()> {
    match made {
        Ok(made) => sqlx::query!(
            "with delivered as (
               update hook_deliveries set made_id = $3 where hook = $1 and delivery = $2
             )
             update hooks set made_id = $3, problem = null, fired_at = now() where name = $1",
            hook,
            delivery,
            made.0,
        ),
        Err(why) => sqlx::query!(
            "with delivered as (
               delete from hook_deliveries where hook = $1 and delivery = $2
             )
             update hooks set problem = $3 where name = $1",
            hook,
            delivery,
            why,
        ),
    }
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes deliveries older than `days`.
pub async fn prune(conn: &mut PgConnection, days: i32) -> sqlx::Result<u64> {
    let gone = sqlx::query!(
        "delete from hook_deliveries where at < now() - make_interval(days => $1)",
        days
    )
    .execute(conn)
    .await?;
    Ok(gone.rows_affected())
}
