// Runs in a folder that holds one package: loads it and writes down how that went.
// Usage: node probe.cjs NAME ANSWER
const fs = require("fs");
const path = require("path");
const { spawnSync } = require("child_process");

const [name, answer] = process.argv.slice(2);
const folder = path.join(__dirname, "node_modules", name);
const manifest = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
const PROGRAM = /\.(c|m)?js$/;

// The files that one entry of `exports` can lead to, and whether `require` and `import` may ask.
function targets(entry, condition) {
  if (typeof entry === "string") return [entry];
  if (Array.isArray(entry)) return entry.flatMap((one) => targets(one, condition));
  for (const [key, value] of Object.entries(entry || {})) {
    if (![condition, "node", "default"].includes(key)) continue;
    const found = targets(value, condition);
    if (found.length) return found;
  }
  return [];
}

function subpaths() {
  const { exports } = manifest;
  if (exports === undefined) return null;
  const bare = typeof exports === "string" || Array.isArray(exports);
  const split = !bare && Object.keys(exports).some((key) => key.startsWith("."));
  return split ? exports : { ".": exports };
}

function attempts() {
  const found = [];
  const entries = subpaths();
  if (entries) {
    for (const [key, entry] of Object.entries(entries)) {
      if (key.includes("*") || entry === null) continue;
      const specifier = name + key.slice(1);
      for (const way of ["import", "require"]) {
        const files = targets(entry, way);
        if (files.length && PROGRAM.test(files[0])) found.push({ way, specifier, file: files[0] });
      }
    }
  } else if (manifest.main || fs.existsSync(path.join(folder, "index.js"))) {
    const main = path.join(folder, manifest.main || "index.js");
    const data = /\.(json|css|d\.ts|node)$/.test(main);
    if (!data) {
      found.push({ way: "import", specifier: name, file: main });
      found.push({ way: "require", specifier: name, file: main });
    }
  }
  return found;
}

// A module that only `import` may load: older Nodes refuse to `require` it, and that is no fault.
function isModule(file) {
  if (file.endsWith(".mjs")) return true;
  return !file.endsWith(".cjs") && manifest.type === "module";
}

function bins() {
  const { bin } = manifest;
  if (!bin) return [];
  return typeof bin === "string" ? [[name.split("/").pop(), bin]] : Object.entries(bin);
}

function checkBin(command, file) {
  const target = path.join(folder, file);
  if (!fs.existsSync(target)) {
    const error = new Error(`the package holds no ${file}`);
    error.code = "LACKS_FILE";
    throw error;
  }
  if (!PROGRAM.test(target)) return;
  const checked = spawnSync(process.execPath, ["--check", target], { encoding: "utf8" });
  if (checked.status !== 0) throw new Error(checked.stderr);
}

async function main() {
  const body = { loaded: [] };
  const steps = attempts()
    .filter(({ way, file }) => way === "import" || !isModule(file))
    .map(({ way, specifier }) => [
      `${way} ${specifier}`,
      async () => (way === "import" ? import(specifier) : require(specifier)),
    ]);
  for (const [command, file] of bins()) {
    steps.push([`the command \`${command}\` (${file})`, async () => checkBin(command, file)]);
  }
  for (const [what, step] of steps) {
    try {
      await step();
    } catch (error) {
      body.failed = what;
      body.code = (error && error.code) || "";
      body.words = String((error && error.stack) || error);
      break;
    }
    body.loaded.push(what);
  }
  fs.writeFileSync(`${answer}.new`, JSON.stringify(body));
  fs.renameSync(`${answer}.new`, answer);
  process.exit(0); // servers and timers that a module has started are not ours to wait for
}

main();
