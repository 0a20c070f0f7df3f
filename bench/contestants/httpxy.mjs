/** A plain proxy on node:http: httpxy as its README has it, on its own agent, which keeps connections. */
import { createProxyServer } from 'httpxy'
import { createServer } from 'node:http'

const proxy = createProxyServer({})
const server = createServer(async (request, response) => {
  try {
    await proxy.web(request, response, { target: process.env.UPSTREAM })
  } catch (error) {
    console.error(error)
    response.statusCode = 500
    response.end(`Proxy error: ${error}`)
  }
})
server.listen(0, '127.0.0.1', () => { console.log(`listens on http://127.0.0.1:${server.address().port}`) })
