// Calls the functions of slashvibe-mcp as it is told on stdin.
//
//     drive.js FOLDER
//
// FOLDER is where the package is; VIBE_API_URL and HOME are its own. Each line of
// stdin is a list: a function of its store, or the name of a tool, and the arguments.
// Each line of stdout is what it returned.

const path = require('path');
const readline = require('readline');

const folder = process.argv[2];
const store = require(path.join(folder, 'store', 'api.js'));
const tools = { dm: require(path.join(folder, 'tools', 'dm.js')) };

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [name, ...args] = JSON.parse(line);
    const answer = tools[name] ? await tools[name].handler(...args) : await store[name](...args);
    process.stdout.write(JSON.stringify(answer === undefined ? null : answer) + '\n');
  }
  process.exit(0); // it has timers of its own
}

main();
