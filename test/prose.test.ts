import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { test } from 'node:test'

/**
 * Sentences of the pages that are written by hand have 15 words on average and 25 at most.
 *
 * Not prose: front matter, fenced code, HTML comments, tables, headings, and lines that are a link's definition. Of a link only its
 * text counts. Inline code is one word. A list item and a paragraph each end their last sentence. A sentence ends at . ! ? or : if
 * white space or the end of its block follows, closing quotes and brackets aside. A semicolon ends none: it joins two claims,
 * which is what the limit is against.
 */
const AVERAGE = 15
const MOST = 25

interface Sentence {
  readonly line: number
  readonly text: string
  readonly words: number
}

interface Block {
  readonly line: number
  text: string
}

const blank = (part: string): string => part.replace(/[^\n]/g, '')
const LIST_ITEM = /^\s*(?:[-*+]|\d+[.)])\s+/
const NOT_PROSE = /^\s*(?:\||#{1,6}\s|\[[^\]]+\]:\s|(?:-{3,}|\*{3,}|={3,})\s*$)/

function withoutCode (page: string): string {
  return page
    .replace(/^---\n[\s\S]*?\n---\n/, blank)
    .replace(/^([ \t]*)(`{3,}|~{3,})[^\n]*\n[\s\S]*?(?:^[ \t]*\2[ \t]*$|$(?![\s\S]))/gm, blank)
    .replace(/<!--[\s\S]*?-->/g, blank)
}

/** Paragraphs and list items, each with the line on which it begins. */
function blocksOf (page: string): Block[] {
  const blocks: Block[] = []
  let open: Block | undefined
  for (const [index, raw] of withoutCode(page).split('\n').entries()) {
    const line = raw.replace(/^\s*>\s?/, '')
    const item = LIST_ITEM.test(line)
    const text = line.replace(LIST_ITEM, '').trim()
    if (NOT_PROSE.test(line) || text === '') open = undefined
    else if (open === undefined || item) blocks.push(open = { line: index + 1, text })
    else open.text += `\n${text}`
  }
  return blocks
}

function plain (text: string): string {
  return text
    .replace(/(`+)(?!`)([\s\S]*?[^`])\1(?!`)/g, (code: string) => `code${blank(code)}`)
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/!?\[([^\]]*)\]\[[^\]]*\]/g, '$1')
    .replace(/<\/?[a-z][^>]*>/gi, '')
    .replace(/[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}/g, '')
}

const wordsOf = (text: string): number => text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length

function sentencesOf (page: string): Sentence[] {
  return blocksOf(page).flatMap(({ line, text }) => {
    let at = line
    return (plain(text).match(/[\s\S]+?(?:[.!?:]["'”’)\]]*(?=\s|$)|$)/g) ?? []).map((part) => {
      const lead = /^\s*/.exec(part)?.[0] ?? ''
      const sentence = { line: at + lead.split('\n').length - 1, text: part.trim().replace(/\s+/g, ' '), words: wordsOf(part) }
      at += part.split('\n').length - 1
      return sentence
    })
  }).filter(({ words }) => words > 0)
}

const averageOf = (sentences: readonly Sentence[]): number =>
  sentences.reduce((sum, { words }) => sum + words, 0) / Math.max(1, sentences.length)

const ROOT = new URL('..', import.meta.url)
const FOLDERS = ['docs/concepts', 'docs/contributing', 'docs/guides', 'docs/internals']
const PAGES = [
  'README.md',
  'CONTRIBUTING.md',
  'bench/README.md',
  'bench/outside/README.md',
  'docs/reference/cli.md',
  'docs/reference/http.md',
  'docs/reports/README.md',
  'scripts/configuration-head.md',
  ...FOLDERS.flatMap((folder) =>
    readdirSync(new URL(folder, ROOT)).filter((name) => name.endsWith('.md')).sort().map((name) => `${folder}/${name}`))
]

for (const page of PAGES) {
  test(`${page} has sentences of ${AVERAGE} words on average and ${MOST} at most`, () => {
    const sentences = sentencesOf(readFileSync(new URL(page, ROOT), 'utf8'))
    const long = sentences.filter(({ words }) => words > MOST).map(({ line, words, text }) => `${page}:${line}: ${words} words: ${text}`)
    assert.deepEqual(long, [])
    const average = averageOf(sentences)
    const longest = sentences
      .toSorted((a, b) => b.words - a.words)
      .slice(0, 10)
      .map(({ line, words, text }) => `${page}:${line}: ${words} words: ${text}`)
    assert.ok(average <= AVERAGE, `${page}: ${average.toFixed(1)} words a sentence; the longest:\n${longest.join('\n')}`)
  })
}

const counted = (page: string): Array<[line: number, words: number]> => sentencesOf(page).map(({ line, words }) => [line, words])

test('the counter takes code, tables, headings, comments and front matter for no prose', () => {
  const page = '---\ntitle: no\n---\n# Head\n\n```sh\nls -l. No prose.\n```\n<!-- not. this. -->\n| a | b |\n|---|---|\n\nOne two.\n\n  ```js\n  no.\n  ```\n'
  assert.deepEqual(counted(page), [[13, 2]])
})

test('the counter ends a sentence at . ! ? : and at the end of a list item, and at nothing within code, links or numbers', () => {
  assert.deepEqual(counted('One two. Three four five! Six? Seven: eight'), [[1, 2], [1, 3], [1, 1], [1, 1], [1, 1]])
  assert.deepEqual(counted('one; two; three, four'), [[1, 4]])
  assert.deepEqual(counted('* one two\n  three\n* four\n\n1. five'), [[1, 3], [3, 1], [5, 1]])
  assert.deepEqual(counted('Set `a: b. c d` to 3.5 in [the file](docs/a.b.md#no-1).'), [[1, 7]])
  assert.deepEqual(counted('(One two.) **Three.** "Four."'), [[1, 2], [1, 1], [1, 1]])
})

test('the counter names the line on which a sentence begins', () => {
  assert.deepEqual(counted('\nOne\ntwo. Three\nfour.\nFive `a\nb` six.'), [[2, 2], [3, 2], [5, 3]])
})

test('the counter counts what has a letter or a digit', () => {
  assert.deepEqual(counted('a – b · c → 4 & at-most-once'), [[1, 5]])
  assert.equal(sentencesOf(`${'word '.repeat(26)}.`)[0]?.words, 26)
  assert.equal(averageOf(sentencesOf('One. One two three.')), 2)
})
