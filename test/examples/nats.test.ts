import { describe, test } from 'node:test'
import { needs } from '../harness/needs.ts'
import { playedRight } from './played.ts'

describe('the example nats', needs('nats-server'), () => {
  test('whatever the relay is killed at, every message of the stream is executed once', async (t) => playedRight(t, 'nats'))
})
