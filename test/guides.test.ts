/**
 * Guides that a new user walks from the top to the end. The files are made from the page, and its commands run as they stand, in a
 * clone: the gateway and the programs until they are stopped, everything else in one shell.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { makeDirectory } from './harness/directory.ts'
import { eventually } from './harness/eventually.ts'
import { atExit } from './harness/exit.ts'
import { assertShown } from './harness/page.ts'
import type { Step } from './harness/page.ts'
import { freePort } from './harness/ports.ts'
import { bareEnv } from './harness/process-gateway.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
/** What a command of a clone needs. */
const CLONED = ['package.json', 'src', 'migrations', 'node_modules']
/** Longest start on a busy machine, and longer than any pause of the pages. */
const LONGEST_MS = 60_000
/** A command that goes on until it is stopped, after others or alone. */
const PROGRAM = /^(?:npm start|node \w+\.mjs).*\n$/m

interface Block { readonly language: string, readonly text: string, readonly shown: string | null }

/** A block that shows the output of the one directly above it belongs to that one. */
function blocksOf (page: string): Block[] {
  const blocks = page.matchAll(/```(\w+)\n((?:(?!```)[\s\S])*)```\n(?:```text\n((?:(?!```)[\s\S])*)```\n)?/g)
  return Array.from(blocks, ([, language = '', text = '', shown]) => ({ language, text, shown: shown ?? null }))
}

class Program {
  readonly name: string
  readonly #child: ChildProcess
  #output = ''
  #ended = false

  constructor (script: string, cwd: string, env: Readonly<Record<string, string>>) {
    this.name = script.trimEnd().split('\n').at(-1) ?? ''
    // In a group of its own: npm starts a shell, and that one the gateway.
    this.#child = spawn('bash', ['-ec', script], { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.setEncoding('utf8').on('data', (chunk: string) => { this.#output += chunk })
    }
    this.#child.once('exit', () => { this.#ended = true })
  }

  get output (): string { return this.#output }

  async listens (): Promise<void> {
    await eventually(
      () => {
        assert.ok(!this.#ended, `${this.name} has ended:\n${this.#output}`)
        return / listens\b/.test(this.#output)
      },
      () => `${this.name} does not listen:\n${this.#output}`,
      LONGEST_MS
    )
  }

  kill (): void {
    if (this.#child.pid === undefined) return
    try { process.kill(-this.#child.pid, 'SIGKILL') } catch {}
  }

  async stop (): Promise<void> {
    this.kill()
    if (!this.#ended) await once(this.#child, 'exit')
  }
}

/** The terminal in which the page's commands are typed. It keeps variables and functions. */
class Shell {
  readonly #child: ChildProcess
  #output = ''
  #run = 0

  constructor (cwd: string, env: Readonly<Record<string, string>>) {
    this.#child = spawn('bash', ['-s'], { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] })
    this.#child.stdout?.setEncoding('utf8').on('data', (chunk: string) => { this.#output += chunk })
    this.#child.stderr?.resume()
  }

  /** What the script prints. Its last command must succeed. */
  async run (script: string): Promise<string> {
    const end = new RegExp(`\\nend ${++this.#run}: (\\d+)\\n$`)
    this.#output = ''
    this.#child.stdin?.write(`${script}\nprintf '\\nend ${this.#run}: %s\\n' $?\n`)
    await eventually(() => end.test(this.#output), () => `${script}does not end:\n${this.#output}`, LONGEST_MS)
    assert.equal(end.exec(this.#output)?.[1], '0', `${script}fails:\n${this.#output}`)
    return this.#output.replace(end, '')
  }

  stop (): void { this.#child.kill('SIGKILL') }
}

function shows (step: Step, printed: string): boolean {
  try { assertShown(step, printed) } catch { return false }
  return true
}

function whatIsMissing (step: Step, printed: string): string {
  try { assertShown(step, printed) } catch (error) { return String(error) }
  return 'it came too late'
}

class Walk {
  readonly directory: string
  readonly ran: string[] = []
  readonly #env: Readonly<Record<string, string>>
  readonly #shell: Shell
  readonly #programs: Program[] = []

  constructor (t: TestContext, adminPort: string) {
    const { path, remove } = makeDirectory('clone')
    this.directory = path
    for (const name of CLONED) symlinkSync(join(ROOT, name), join(path, name))
    this.#env = { ...bareEnv(), ONCEWAY_ADMIN_PORT: adminPort }
    this.#shell = new Shell(path, this.#env)
    const forget = atExit(() => { for (const program of this.#programs) program.kill() })
    t.after(async () => {
      this.#shell.stop()
      for (const program of this.#programs) await program.stop()
      forget()
      remove()
    })
  }

  write (name: string, text: string): void { writeFileSync(join(this.directory, name), text) }

  read (name: string): string { return readFileSync(join(this.directory, name), 'utf8') }

  /** A command that does not show it yet is typed again: it asks, or sends what it has sent before. */
  async step ({ text: script, shown }: Block): Promise<void> {
    if (PROGRAM.test(script)) return this.start(script)
    let printed = await this.run(script)
    if (shown === null) return
    const step = { script, output: shown }
    const isShown = async (): Promise<boolean> => {
      if (shows(step, printed)) return true
      printed = await this.run(script)
      return false
    }
    await eventually(isShown, () => whatIsMissing(step, printed), LONGEST_MS)
  }

  async run (script: string): Promise<string> {
    this.ran.push(script)
    return this.#shell.run(script)
  }

  async start (script: string): Promise<void> {
    const program = new Program(script, this.directory, this.#env)
    this.#programs.push(program)
    await program.listens()
  }

  /** Ctrl-C. */
  async stop (name: string): Promise<void> {
    await this.#programs.findLast((program) => program.name.includes(name))?.stop()
  }

  /** By any program, in this order. */
  async printed (text: string): Promise<void> {
    const step = { script: 'no program ', output: text }
    await eventually(() => shows(step, this.output()), () => whatIsMissing(step, this.output()), LONGEST_MS)
  }

  output (): string { return this.#programs.map(({ output }) => output).join('') }
}

/** The page with ports that are free, so that guides can be walked beside each other. */
async function pageOf (name: string): Promise<{ readonly page: string, readonly adminPort: string }> {
  const ports = new Map<string, string>()
  for (const port of ['8080', '8081', '3000', '3001', '3002', '3003']) ports.set(port, String(await freePort()))
  const page = readFileSync(join(ROOT, 'docs/guides', name), 'utf8')
    .replaceAll(/\b(?:808[01]|300[0-3])\b/g, (port) => ports.get(port) ?? port)
  return { page, adminPort: ports.get('8081') ?? '' }
}

interface Happenings {
  /** What the text between the blocks tells the user to do before a command. */
  readonly before?: (script: string, walk: Walk) => Promise<void> | void
  /** What the page shows of a file beyond its first configuration. */
  readonly onFragment?: (text: string, walk: Walk) => void
}

async function walked (t: TestContext, name: string, { before, onFragment }: Happenings): Promise<Walk> {
  const { page, adminPort } = await pageOf(name)
  const walk = new Walk(t, adminPort)
  for (const block of blocksOf(page)) {
    const { language, text } = block
    if (language === 'js') walk.write(/^\/\/ (\w+\.mjs)\n/.exec(text)?.[1] ?? '', text)
    else if (language === 'yaml') text.startsWith('version: 1\n') ? walk.write('onceway.yaml', text) : onFragment?.(text, walk)
    else if (language === 'text') await walk.printed(text)
    else {
      await before?.(text, walk)
      await walk.step(block)
    }
  }
  for (const [, line = ''] of page.matchAll(/prints `([^`]+)`/g)) await walk.printed(line)
  return walk
}

test('docs/guides/send-webhooks.md: the walk does what the page says, and a customer that is added gets the next event', async (t) => {
  const walk = await walked(t, 'send-webhooks.md', {
    onFragment: (text, walk) => {
      const [upstream = '', target = ''] = text.trimEnd().split('\n')
      walk.write('onceway.yaml', `${walk.read('onceway.yaml').replace('routes:\n', `${upstream}\nroutes:\n`)}${target}\n`)
    },
    // Not every machine has lsof.
    before: async (script, walk) => {
      const pid = /"instance":"[^"]*-(\d+)"/.exec(walk.output())?.[1]
      if (script.includes('lsof')) await walk.run(`lsof () { echo ${pid}; }`)
    }
  })
  await eventually(() => walk.output().includes('"event":"config-reloaded"'), 'the file is read again', LONGEST_MS)
  const port = /initech: \{ url: "http:\/\/127\.0\.0\.1:(\d+)/.exec(walk.read('onceway.yaml'))?.[1] ?? ''
  await walk.start(`node customer.mjs initech ${port}\n`)
  const post = walk.ran.find((script) => script.startsWith('curl -i')) ?? ''
  await walk.run(post.replace('evt-1', 'evt-2'))
  await walk.printed('initech has invoice.paid evt-2')
})

test('docs/guides/shield-a-partner.md: the walk does what the page says', async (t) => {
  await walked(t, 'shield-a-partner.md', {
    before: async (script, walk) => { if (script.includes('order order-4')) await walk.stop('node partner.mjs') }
  })
})
