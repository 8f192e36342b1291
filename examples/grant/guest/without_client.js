// The client is JavaScript like any other: a program can go around it. What it reaches then is the same broker.
const answer = __plimsoll_host_call(JSON.stringify({ method: "GET", path: "/crew" }));
console.log(answer.status, answer.body.trim());
