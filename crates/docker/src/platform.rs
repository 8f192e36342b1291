//! Platforms in one spelling, and the software identity of an image.

use crate::engine::ImageAnswer;
use crate::image_ref::is_content_id;

/// Media types of a manifest of one image; a list of manifests is not one.
const MANIFEST_TYPES: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

/// The platform in the one spelling that is compared: `os/arch` or `os/arch/variant`. Text of any other form is only
/// lower-cased.
pub fn normalize(platform: &str) -> String {
    let lower = platform.trim().to_lowercase();
    let parts: Vec<&str> = lower.split('/').collect();
    let (os, arch, variant) = match parts[..] {
        [os, arch] => (os, arch, ""),
        [os, arch, variant] => (os, arch, variant),
        _ => return lower,
    };
    let (arch, variant) = match (arch, variant) {
        ("aarch64" | "arm64", "" | "8" | "v8" | "v8.0") => ("arm64", ""),
        ("aarch64" | "arm64", "9" | "9.0" | "v9.0") => ("arm64", "v9"),
        ("aarch64", variant) => ("arm64", variant),
        ("x86_64" | "x86-64" | "amd64", "v1") => ("amd64", ""),
        ("x86_64" | "x86-64", variant) => ("amd64", variant),
        ("i386", variant) => ("386", variant),
        ("armhf", _) | ("arm", "" | "7") => ("arm", "v7"),
        ("armel", _) | ("arm", "6") => ("arm", "v6"),
        ("arm", "5") => ("arm", "v5"),
        ("arm", "8") => ("arm", "v8"),
        other => other,
    };
    if variant.is_empty() {
        format!("{os}/{arch}")
    } else {
        format!("{os}/{arch}/{variant}")
    }
}

/// The platform an image is for, normalized.
pub fn of_image(image: &ImageAnswer) -> String {
    let ImageAnswer {
        os,
        architecture,
        variant,
        ..
    } = image;
    if variant.is_empty() {
        normalize(&format!("{os}/{architecture}"))
    } else {
        normalize(&format!("{os}/{architecture}/{variant}"))
    }
}

/// The software identity of an image that was inspected for `selected`: empty unless the engine states the manifest of
/// that very platform and names the image by it.
pub fn manifest_identity(selected: &str, image: &ImageAnswer) -> String {
    let selected = normalize(selected);
    let Some(descriptor) = &image.descriptor else {
        return String::new();
    };
    let stated = of_image(image) == selected
        && is_content_id(&descriptor.digest)
        && descriptor.digest == image.id
        && MANIFEST_TYPES.contains(&descriptor.media_type.as_str());
    if stated {
        format!("oci-manifest:{selected}@{}", descriptor.digest)
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Descriptor;

    #[test]
    fn one_platform_has_one_spelling() {
        for (text, expected) in [
            ("linux/arm64/v8", "linux/arm64"),
            ("linux/aarch64", "linux/arm64"),
            ("Linux/ARM64", "linux/arm64"),
            ("linux/arm64/v8.0", "linux/arm64"),
            ("linux/arm64/9", "linux/arm64/v9"),
            ("linux/aarch64/v9.0", "linux/arm64/v9"),
            ("linux/arm", "linux/arm/v7"),
            ("linux/arm/7", "linux/arm/v7"),
            ("linux/arm/v7", "linux/arm/v7"),
            ("linux/arm/5", "linux/arm/v5"),
            ("linux/arm/6", "linux/arm/v6"),
            ("linux/arm/8", "linux/arm/v8"),
            ("linux/armhf", "linux/arm/v7"),
            ("linux/armel", "linux/arm/v6"),
            ("linux/amd64/v1", "linux/amd64"),
            ("linux/x86_64", "linux/amd64"),
            ("linux/x86-64/v3", "linux/amd64/v3"),
            ("linux/i386", "linux/386"),
            ("linux/riscv64", "linux/riscv64"),
            ("LINUX", "linux"),
            ("a/b/c/D", "a/b/c/d"),
        ] {
            assert_eq!(normalize(text), expected, "{text}");
            assert_eq!(normalize(expected), expected);
        }
    }

    #[test]
    fn software_is_named_only_by_the_manifest_of_the_selected_platform() {
        let id = format!("sha256:{}", "ab".repeat(32));
        let image = |change: fn(&mut ImageAnswer)| {
            let mut image = ImageAnswer {
                id: id.clone(),
                descriptor: Some(Descriptor {
                    media_type: MANIFEST_TYPES[0].to_owned(),
                    digest: id.clone(),
                }),
                config: None,
                architecture: "amd64".to_owned(),
                variant: String::new(),
                os: "linux".to_owned(),
            };
            change(&mut image);
            image
        };
        let stated = format!("oci-manifest:linux/amd64@{id}");
        assert_eq!(manifest_identity("linux/x86_64", &image(|_| ())), stated);
        let docker = image(|image| {
            if let Some(descriptor) = &mut image.descriptor {
                descriptor.media_type = MANIFEST_TYPES[1].to_owned();
            }
        });
        assert_eq!(manifest_identity("linux/amd64", &docker), stated);
        for (case, image) in [
            (
                "another platform",
                image(|image| image.architecture = "arm64".to_owned()),
            ),
            ("no descriptor", image(|image| image.descriptor = None)),
            (
                "another object",
                image(|image| image.id = format!("sha256:{}", "cd".repeat(32))),
            ),
            (
                "a list of manifests",
                image(|image| {
                    if let Some(descriptor) = &mut image.descriptor {
                        descriptor.media_type = "application/vnd.oci.image.index.v1+json".to_owned();
                    }
                }),
            ),
        ] {
            assert_eq!(manifest_identity("linux/amd64", &image), "", "{case}");
        }
    }
}
