/** The baseline: a proxy as the README of @fastify/http-proxy has it, on undici's defaults, without a log. It guards nothing. */
import httpProxy from '@fastify/http-proxy'
import Fastify from 'fastify'

const { UPSTREAM = '' } = process.env

const server = Fastify({ logger: false })
await server.register(httpProxy, { upstream: UPSTREAM })
console.log(`listens on ${await server.listen({ host: '127.0.0.1', port: 0 })}`)
