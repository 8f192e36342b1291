console.log(`the crew: ${(await host.get("/crew")).join(", ")}`);
