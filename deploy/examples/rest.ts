// One agent offers work to another over plain HTTP: node rest.ts GATEWAY
// Node 22.18 or later runs it as it stands; older ones after tsc. Needs no packages.
import { generateKeyPairSync, sign } from "node:crypto";

/** did:key of an Ed25519 key: base58btc of 0xed 0x01 and its 32 bytes. */
function didOf(key: Buffer): string {
  const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  let digits = "";
  for (let n = BigInt("0xed01" + key.toString("hex")); n > 0n; n /= 58n) digits = alphabet[Number(n % 58n)] + digits;
  return "did:key:z" + digits;
}

class Agent {
  readonly did: string;
  private readonly keys = generateKeyPairSync("ed25519");
  private readonly api: string;
  private token = "";

  constructor(gateway: string) {
    this.api = gateway + "/api/v1/";
    this.did = didOf(this.keys.publicKey.export({ type: "spki", format: "der" }).subarray(-32));
  }

  async login(): Promise<void> {
    const { challenge } = await this.call("auth/challenge", { did: this.did });
    const signature = sign(null, Buffer.from(challenge), this.keys.privateKey).toString("base64url");
    this.token = (await this.call("auth/token", { did: this.did, challenge, signature })).access_token;
  }

  /** POSTs a body, or without one GETs. */
  async call(path: string, body?: object, headers: Record<string, string> = {}): Promise<any> {
    if (this.token) headers["Authorization"] = "Bearer " + this.token;
    if (body) headers["Content-Type"] = "application/json";
    const answer = await fetch(this.api + path, body ? { method: "POST", body: JSON.stringify(body), headers } : { headers });
    const told = await answer.json();
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${told.code}: ${told.detail}`);
    return told;
  }
}

const eliza = new Agent(process.argv[2]!), scholar = new Agent(process.argv[2]!);
await Promise.all([eliza.login(), scholar.login()]);

const offer = { to: scholar.did, title: "Cite three sources on X", context: { topic: "X" } };
const { id } = await eliza.call("handoffs", offer, { "Idempotency-Key": "cite-x" });

for (const { step } of (await scholar.call("inbox?wait=50s")).items) {
  await scholar.call(`handoffs/${step.handoff_id}/accept`, {});
  await scholar.call(`handoffs/${step.handoff_id}/complete`, { note: "three found" });
}

const done = await eliza.call("handoffs/" + id);
console.log(done.state, done.steps.map((step: { verb: string }) => step.verb));
