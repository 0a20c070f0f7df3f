/** Who drives which row of the table. */
import type { Client } from './client.ts'
import { curlClient, pythonClient } from './commands.ts'
import * as libraries from './libraries.ts'
import * as sdks from './sdks.ts'

export const DRIVERS: Readonly<Record<string, () => Client>> = {
  stripe: () => sdks.stripe,
  openai: () => sdks.openai,
  anthropic: () => sdks.anthropic,
  axios: () => libraries.axiosPlain,
  axiosTuned: () => libraries.axiosTuned,
  got: () => libraries.gotPlain,
  gotTuned: () => libraries.gotTuned,
  ky: () => libraries.kyPlain,
  kyTuned: () => libraries.kyTuned,
  agent: () => libraries.agentPlain,
  agentTuned: () => libraries.agentTuned,
  fetch: () => libraries.fetchPlain,
  fetchTuned: () => libraries.fetchTuned,
  requests: () => pythonClient('requests'),
  requestsTuned: () => pythonClient('requests-retry'),
  httpx: () => pythonClient('httpx'),
  curl: () => curlClient(['--retry', '3']),
  curlTuned: () => curlClient(['--retry', '3', '--retry-all-errors', '--fail-with-body'])
}

export function driverOf (id: string): Client {
  const driver = DRIVERS[id]
  if (driver === undefined) throw new Error(`nobody drives ${id}`)
  return driver()
}
