// A child process: verdaccio without upstream, on a port of its own, until stdin closes.
// Usage: node server.cjs MODULES_FOLDER STORAGE_FOLDER [private]
const path = require("path");

const [modules, folder, privately] = process.argv.slice(2);
const { runServer } = require(require.resolve("verdaccio", { paths: [modules] }));

const who = privately ? "$authenticated" : "$all";
const everyone = { access: who, publish: who, unpublish: who };
const config = {
  self_path: folder,
  storage: path.join(folder, "storage"),
  auth: { htpasswd: { file: path.join(folder, "htpasswd"), max_users: privately ? 10 : -1 } },
  uplinks: {},
  packages: { "@*/*": everyone, "**": everyone },
  max_body_size: "200mb",
  publish: { allow_offline: true },
  web: { enable: false },
  log: { type: "file", path: path.join(folder, "verdaccio.log"), format: "json", level: "warn" },
};

process.stdin.on("end", () => process.exit(0)).resume();
runServer(config).then((server) =>
  server.listen(0, "127.0.0.1", () =>
    process.stdout.write(`http://127.0.0.1:${server.address().port}/\n`),
  ),
);
