// Has a client of irc-framework do as it is told on stdin.
//
//     irc.js FOLDER HOST PORT NICK [SEED]
//
// FOLDER is where the package is. SEED, 64 hexadecimal digits, is of the Ed25519 key
// that the client proves to be; without one it is a guest. Each line of stdin is a list
// with one of the words below and its arguments, each line of stdout what came of it.

const crypto = require('crypto');
const path = require('path');
const readline = require('readline');

const [folder, host, port, nick, seed] = process.argv.slice(2);
const IRC = require(path.resolve(folder));

const client = new IRC.Client();
const heard = { batch: [], notice: [], message: [], closed: [] };
const waiting = {};
let deaf = false; // answers no PING, as one that stopped between a page and its answer

function hear(kind, what) {
  heard[kind].push(what);
  if (waiting[kind]) waiting[kind]();
}

// next waits for the oldest of a kind that nobody asked for yet.
async function next(kind) {
  while (heard[kind].length === 0) await new Promise((resolve) => { waiting[kind] = resolve; });
  return heard[kind].shift();
}

client.requestCap(['freeq.at/handoff', 'standard-replies']);
let login = () => {}; // takes the messages that a login is answered with
client.use((irc, raw) => raw.use((command, message, line, from, go) => {
  login(command, message.params);
  if (!(deaf && command === 'PING')) go();
}));
client.on('batch end freeq.at/handoff', (b) => hear('batch', b.commands.map((c) => ({ command: c.command, tags: c.tags }))));
client.on('notice', (e) => hear('notice', e.message));
client.on('privmsg', (e) => hear('message', { nick: e.nick, text: e.message }));
client.on('close', () => hear('closed', true));

// prove logs in as the did:key of a seed.
async function prove(did) {
  const key = crypto.createPrivateKey({
    key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.from(seed, 'hex')]), format: 'der', type: 'pkcs8',
  });
  return new Promise((resolve) => {
    login = (command, params) => {
      if (command === 'AUTHENTICATE') {
        const signature = crypto.sign(null, Buffer.from(params[0], 'base64url'), key).toString('base64url');
        client.raw('AUTHENTICATE', Buffer.from(JSON.stringify({ did, signature })).toString('base64url'));
      }
      if (command === '903' || command === '904') resolve(command);
    };
    client.raw('AUTHENTICATE', 'ATPROTO-CHALLENGE');
  });
}

const words = {
  connect: () => new Promise((resolve) => {
    client.on('registered', (e) => resolve(e.nick));
    client.connect({ host, port: Number(port), nick, username: nick, gecos: 'irc-framework', auto_reconnect: false });
  }),
  prove,
  deafen: () => { deaf = true; },
  join: (channel) => new Promise((resolve) => {
    client.on('userlist', (e) => resolve(e.users.map((u) => u.nick)));
    client.join(channel);
  }),
  say: (target, text) => { client.say(target, text); },
  ack: (id) => { client.tagmsg('Baton', { '+freeq.at/handoff-ack': id }); },
  next,
  left: (kind) => heard[kind].length,
};

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [word, ...args] = JSON.parse(line);
    const answer = await words[word](...args);
    process.stdout.write(JSON.stringify(answer === undefined ? null : answer) + '\n');
  }
  process.exit(0); // its connection is open
}

main();
