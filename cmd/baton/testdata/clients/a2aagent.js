// An agent on the official JavaScript server of A2A.
//
//   a2aagent.js PORT
//
// Each task works until somebody posts to /finish. GET /count returns how many tasks were made.
const express = require('express');
const { TaskState } = require('@a2a-js/sdk');
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = require('@a2a-js/sdk/server');
const { UserBuilder, agentCardHandler, jsonRpcHandler } = require('@a2a-js/sdk/server/express');

const port = Number(process.argv[2]);
const base = `http://127.0.0.1:${port}`;
let made = 0;
let finish;
const finished = new Promise((resolve) => { finish = resolve; });
const part = (text) => ({ content: { $case: 'text', value: text }, mediaType: 'text/plain', filename: '', metadata: undefined });

const executor = {
  async execute(context, bus) {
    const { taskId, contextId } = context;
    const status = (state) => ({ state, timestamp: new Date().toISOString(), message: undefined });
    made += 1;
    bus.publish(AgentEvent.task({ id: taskId, contextId, status: status(TaskState.TASK_STATE_WORKING), artifacts: [], history: [], metadata: {} }));
    await finished;
    const artifact = { artifactId: 'a', name: 'sources', description: '', parts: [part('three found')], metadata: {}, extensions: [] };
    bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, artifact, append: false, lastChunk: true, metadata: {} }));
    bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(TaskState.TASK_STATE_COMPLETED), metadata: {} }));
    bus.finished();
  },
  async cancelTask() {},
};

const card = {
  name: 'Researcher', description: 'Finds sources', version: '1', provider: undefined, documentationUrl: '', iconUrl: '',
  supportedInterfaces: [{ url: `${base}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0', tenant: '' }],
  capabilities: { streaming: true, pushNotifications: false, extensions: [], extendedAgentCard: false },
  securitySchemes: {}, securityRequirements: [], defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'],
  skills: [{ id: 'cite', name: 'Cite', description: 'Cites', tags: ['cite'], examples: [], inputModes: [], outputModes: [], securityRequirements: [] }],
  signatures: [],
};
const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor);
const app = express();
app.get('/count', (_, answer) => answer.send(String(made)));
app.post('/finish', (_, answer) => { finish(); answer.send(''); });
app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
app.use('/rpc', jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
app.listen(port, '127.0.0.1');
