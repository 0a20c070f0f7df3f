/** A plain proxy on node:http: fast-proxy as its README has it, with its undici client, which the README calls the faster one. */
import fastProxy from 'fast-proxy'
import { createServer } from 'node:http'

const { proxy } = fastProxy({ base: process.env.UPSTREAM, undici: true })
const server = createServer((request, response) => { proxy(request, response, request.url, {}) })
server.listen(0, '127.0.0.1', () => { console.log(`listens on http://127.0.0.1:${server.address().port}`) })
