await host.get("/crew").catch((error) => console.log(error.message));
