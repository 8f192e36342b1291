//! Nothing here: what is in `deploy` is checked by the tests of this folder, which `./test deploy` runs with the tools they need.
