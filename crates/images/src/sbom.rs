//! The list of what is in an image, as SPDX 2.3 in JSON.

use serde_json::{Value, json};

use crate::built::{Built, rfc3339};
use crate::lock::{Kind, Locked};

/// What a package says about its licence, by its id.
pub(crate) type Licences = std::collections::BTreeMap<String, String>;

/// The document: the image, its packages with their hashes and package URLs, and what licence they state.
pub(crate) fn spdx(built: &Built, licences: &Licences) -> String {
    let mut packages = vec![json!({
        "SPDXID": "SPDXRef-image",
        "name": built.tag,
        "versionInfo": built.id.digest(),
        "primaryPackagePurpose": "CONTAINER",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "checksums": [{"algorithm": "SHA256", "checksumValue": built.id.to_string()}],
    })];
    let mut relationships = vec![relationship("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-image")];
    for package in built.locks.iter().flat_map(|lock| &lock.packages) {
        let id = format!("SPDXRef-{}-{}", kind_word(package.kind), package.sha256);
        if packages.iter().any(|one| one["SPDXID"] == id.as_str()) {
            continue;
        }
        let declared = licences.get(&package.id()).and_then(|text| expression(text));
        packages.push(json!({
            "SPDXID": id,
            "name": package.name,
            "versionInfo": package.version,
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": false,
            "licenseConcluded": "NOASSERTION",
            "licenseDeclared": declared.unwrap_or("NOASSERTION"),
            "copyrightText": "NOASSERTION",
            "checksums": [{"algorithm": "SHA256", "checksumValue": package.sha256.to_string()}],
            "externalRefs": [{
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": package_url(package),
            }],
        }));
        relationships.push(relationship("SPDXRef-image", "CONTAINS", &id));
    }
    let document = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": built.tag,
        "documentNamespace": format!("https://github.com/plimsoll/plimsoll/spdx/{}", built.id),
        "creationInfo": {
            "created": rfc3339(built.time),
            "creators": [concat!("Tool: plimsoll-images-", env!("CARGO_PKG_VERSION"))],
        },
        "packages": packages,
        "relationships": relationships,
    });
    format!("{document:#}\n")
}

fn relationship(from: &str, kind: &str, to: &str) -> Value {
    json!({"spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to})
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Deb => "deb",
        Kind::Npm => "npm",
        Kind::Wheel => "wheel",
    }
}

/// The package URL: type, namespace, name and version, percent-encoded where it must be.
fn package_url(package: &Locked) -> String {
    let version = encoded(&package.version);
    match package.kind {
        Kind::Deb => format!("pkg:deb/debian/{}@{version}?arch=amd64", encoded(&package.name)),
        Kind::Npm => {
            let name: Vec<String> = package.name.split('/').map(encoded).collect();
            format!("pkg:npm/{}@{version}", name.join("/"))
        }
        Kind::Wheel => format!("pkg:pypi/{}@{version}", encoded(&package.name)),
    }
}

fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' | b':' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// The text if it has the form of a licence expression: names joined by AND, OR and WITH. Packages also write sentences.
fn expression(text: &str) -> Option<&str> {
    let spaced = text.replace(['(', ')'], " ");
    let words: Vec<&str> = spaced.split_ascii_whitespace().collect();
    let is_name = |word: &str| {
        word.chars()
            .all(|one| one.is_ascii_alphanumeric() || "-.+".contains(one))
    };
    let is_joint = |word: &str| matches!(word, "AND" | "OR" | "WITH");
    let well_formed = words.len() % 2 == 1
        && words.iter().enumerate().all(|(index, word)| {
            let name_here = index % 2 == 0;
            is_name(word) && is_joint(word) != name_here
        });
    // One word can still be none of the list; these are the ones that packages use.
    let known = !matches!(
        text,
        "UNLICENSED" | "BSD" | "Proprietary" | "PSF" | "GPL" | "LGPL" | "Apache" | "Expat"
    );
    (well_formed && known).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::digest::Hash;
    use crate::lock::Lock;

    fn package(kind: Kind, name: &str, version: &str) -> Locked {
        Locked {
            kind,
            name: name.to_owned(),
            version: version.to_owned(),
            sha256: Hash::of(name.as_bytes()),
            places: Vec::new(),
        }
    }

    #[test]
    fn the_document_lists_every_package_once_with_its_hash_and_url() {
        let packages = vec![
            package(Kind::Deb, "libstdc++6", "1:12.2+b1"),
            package(Kind::Npm, "@s/p", "1.0.0"),
            package(Kind::Wheel, "numpy", "2.4.6"),
            package(Kind::Wheel, "numpy", "2.4.6"),
        ];
        let lock = Lock {
            image: "x".to_owned(),
            packages,
        };
        let built = Built {
            tag: "x:latest".to_owned(),
            id: Hash::of(b"config"),
            manifest: Hash::of(b"manifest"),
            layers: Vec::new(),
            env: BTreeMap::new(),
            time: 0,
            locks: vec![lock],
        };
        let licences = BTreeMap::from([("@s/p@1.0.0".to_owned(), "MIT".to_owned())]);
        let document: Value = serde_json::from_str(&spdx(&built, &licences)).unwrap();
        let listed = document["packages"].as_array().unwrap();
        assert_eq!(listed.len(), 4);
        assert_eq!(document["relationships"].as_array().unwrap().len(), 4);
        let url = |index: usize| listed[index]["externalRefs"][0]["referenceLocator"].as_str().unwrap();
        assert_eq!(url(1), "pkg:deb/debian/libstdc%2B%2B6@1:12.2%2Bb1?arch=amd64");
        assert_eq!(url(2), "pkg:npm/%40s/p@1.0.0");
        assert_eq!(url(3), "pkg:pypi/numpy@2.4.6");
        assert_eq!(listed[2]["licenseDeclared"], "MIT");
        assert_eq!(listed[3]["licenseDeclared"], "NOASSERTION");
        assert_eq!(
            listed[3]["checksums"][0]["checksumValue"],
            Hash::of(b"numpy").to_string()
        );
    }

    #[test]
    fn only_licence_expressions_are_stated_as_such() {
        for text in ["MIT", "Apache-2.0 WITH LLVM-exception", "(MIT OR GPL-2.0+) AND ISC"] {
            assert_eq!(expression(text), Some(text));
        }
        for text in [
            "",
            "BSD",
            "UNLICENSED",
            "SEE LICENSE IN x",
            "MIT License",
            "MIT AND",
            "AND",
        ] {
            assert_eq!(expression(text), None, "{text}");
        }
    }
}
