//! The path of an API, as its `servers` tell it. A grant's `base_url` is an origin, so a path moves into the routes.

use std::collections::BTreeSet;

use crate::tree::{Map, Node};

/// The one path that all servers share; empty for none.
///
/// # Errors
/// A server without a readable URL, or servers that differ in their path.
pub(crate) fn shared_path(servers: Option<&Node>) -> Result<String, String> {
    let paths = paths(servers)?;
    let mut all = paths.iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(String::new()),
        (Some(path), None) => Ok(path.clone()),
        (Some(one), Some(other)) => Err(format!(
            "servers have different paths ({one:?}, {other:?}); choose with -prefix PATH"
        )),
    }
}

/// The different paths of all servers, without a slash at the end.
pub(crate) fn paths(servers: Option<&Node>) -> Result<BTreeSet<String>, String> {
    let list = match servers {
        None | Some(Node::Null) => return Ok(BTreeSet::new()),
        Some(Node::List(list)) => list,
        Some(other) => return Err(format!("servers must be an array, not {}", other.kind())),
    };
    let mut paths = BTreeSet::new();
    for server in list {
        let Node::Map(server) = server else {
            return Err(format!("a server must be an object, not {}", server.kind()));
        };
        let Some(Node::Text(url)) = server.get("url") else {
            return Err("a server has no url; add it or choose with -prefix PATH".to_owned());
        };
        let url = substituted(url, server)?;
        paths.insert(path_of(&url)?);
    }
    Ok(paths)
}

/// The URL with the default of each variable in its place.
fn substituted(url: &str, server: &Map) -> Result<String, String> {
    let mut text = String::with_capacity(url.len());
    let mut rest = url;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else {
            break;
        };
        let variable = match server.get("variables") {
            Some(Node::Map(variables)) => variables.get(name),
            _ => None,
        };
        let default = match variable {
            Some(Node::Map(variable)) => variable.get("default"),
            _ => None,
        };
        let (Some(Node::Text(default)) | Some(Node::Number(default))) = default else {
            return Err(format!(
                "the server {url:?} has a variable {name:?} without a default; choose with -prefix PATH"
            ));
        };
        text.push_str(before);
        text.push_str(default);
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

fn path_of(url: &str) -> Result<String, String> {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let after_authority = match url.split_once("//") {
        Some((scheme, rest)) if scheme.is_empty() || scheme.ends_with(':') => {
            rest.find('/').map_or("", |start| &rest[start..])
        }
        _ => url,
    };
    let path = after_authority.trim_end_matches('/');
    if path.is_empty() || path.starts_with('/') {
        return Ok(path.to_owned());
    }
    Err(format!(
        "the server {url:?} is relative to where the document was published; choose with -prefix PATH"
    ))
}

#[cfg(test)]
mod tests {
    use super::path_of;

    #[test]
    fn the_path_of_a_server_is_what_follows_its_authority() {
        for (url, path) in [
            ("https://h.example", ""),
            ("https://h.example/", ""),
            ("https://h.example/v1/", "/v1"),
            ("https://h.example:8443/a/b?x=/c", "/a/b"),
            ("//h.example/v2", "/v2"),
            ("/v3", "/v3"),
            ("/a//b", "/a//b"),
            ("/", ""),
            ("", ""),
        ] {
            assert_eq!(path_of(url).as_deref(), Ok(path), "{url}");
        }
        assert!(path_of("api/v1").is_err());
    }
}
