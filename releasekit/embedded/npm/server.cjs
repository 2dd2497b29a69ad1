// A child process: verdaccio on a port of its own, until stdin closes. It has an upstream only
// where its behaviour (see behaviour.py) names one, and never for the names that are its own.
// Usage: node server.cjs MODULES_FOLDER STORAGE_FOLDER [private]
const http = require("http");
const path = require("path");

const [modules, folder, privately] = process.argv.slice(2);
const { runServer } = require(require.resolve("verdaccio", { paths: [modules] }));

const told = JSON.parse(process.env.RELEASEKIT_EMBEDDED_BEHAVIOUR || "{}");
const { latency = 0, faults = {}, own = [], upstream = null, scopes = {} } = told;

const who = privately ? "$authenticated" : "$all";
const everyone = { access: who, publish: who, unpublish: who };
const uplinks = upstream ? { upstream: { url: upstream, max_fails: 100, fail_timeout: "1s" } } : {};
const packages = Object.fromEntries(own.map((name) => [name, everyone]));
for (const [scope, url] of Object.entries(scopes)) {
  const name = `scope-${scope.slice(1)}`;
  uplinks[name] = { url, max_fails: 100, fail_timeout: "1s" };
  packages[`${scope}/*`] = { ...everyone, proxy: name };
}
const others = upstream ? { ...everyone, proxy: "upstream" } : everyone;
const config = {
  self_path: folder,
  storage: path.join(folder, "storage"),
  auth: { htpasswd: { file: path.join(folder, "htpasswd"), max_users: privately ? 10 : -1 } },
  uplinks,
  packages: { ...packages, "@*/*": others, "**": others },
  max_body_size: "200mb",
  publish: { allow_offline: true },
  web: { enable: false },
  log: { type: "file", path: path.join(folder, "verdaccio.log"), format: "json", level: "warn" },
};

function nextFault(request) {
  const name = decodeURIComponent(request.url.slice(1).split("?")[0]);
  return (faults[name] || []).shift();
}

function misbehave(registry, request, response, fault) {
  const answer = () => {
    const wait = fault.retry_after === null ? {} : { "Retry-After": String(fault.retry_after) };
    response.writeHead(fault.status, { "Content-Type": "application/json", ...wait });
    response.end(JSON.stringify({ error: fault.words }));
  };
  if (!fault.stored) {
    request.on("end", answer).resume();
    return;
  }
  // The registry answers to nobody; what it answers is not passed on.
  const port = registry.address().port;
  const headers = { ...request.headers, "x-releasekit-stored": "1" };
  const passed = { host: "127.0.0.1", port, method: "PUT", path: request.url, headers };
  request.pipe(http.request(passed, (answered) => answered.on("end", answer).resume()));
}

process.stdin.on("end", () => process.exit(0)).resume();
runServer(config).then((server) => {
  const [serve] = server.listeners("request");
  server.removeAllListeners("request");
  server.on("request", (request, response) => {
    if (request.method !== "PUT" || request.headers["x-releasekit-stored"]) {
      serve(request, response);
      return;
    }
    setTimeout(() => {
      const fault = nextFault(request);
      if (fault) misbehave(server, request, response, fault);
      else serve(request, response);
    }, latency * 1000);
  });
  server.listen(0, "127.0.0.1", () =>
    process.stdout.write(`http://127.0.0.1:${server.address().port}/\n`),
  );
});
