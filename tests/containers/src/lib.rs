//! Nothing here: the suite stands in `tests/containers`. It needs a container engine at the usual socket and the images of
//! `plimsoll images build`, and fails where they are missing. `PLIMSOLL_TEST_RUNTIME` names the runtime: `runc` or `runsc`.
