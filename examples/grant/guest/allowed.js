const before = await host.get("/berths/A1");
await host.put("/berths/A1", { ship: "Fram" });
const after = await host.get("/berths/A1");
console.log(`berth A1 held ${before.ship}, and holds ${after.ship} after the PUT`);
