/**
 * Pages for people: one for each problem's code, and one that lists them. They come from two tables: problems.ts (title and detail) and
 * docs/reference/http.md (the rest, by problem-docs.ts). All text is fixed, and nothing comes from a request.
 */
import { PROBLEM_DOCS } from './problem-docs.ts'
import { PROBLEMS, PROBLEMS_PATH } from './problems.ts'
import type { ProblemCode } from './problems.ts'

export interface ProblemPage { readonly type: 'text/html; charset=utf-8' | 'text/plain; charset=utf-8', readonly text: string }

export function isProblemCode (code: string): code is ProblemCode {
  return Object.hasOwn(PROBLEMS, code)
}

/** `code` null: the list. */
export function problemPage (code: ProblemCode | null, form: 'html' | 'text'): ProblemPage {
  const text = code === null ? listOf(form) : pageOf(code, form)
  return { type: form === 'html' ? 'text/html; charset=utf-8' : 'text/plain; charset=utf-8', text }
}

function factsOf (code: ProblemCode): ReadonlyArray<readonly [what: string, text: string]> {
  const { api, relay, when, sent, retry } = PROBLEM_DOCS[code]
  return [
    ['When', when],
    ['Status', api === relay ? api : `${api}; on a route with profile relay: ${relay}`],
    ['Was it sent?', sent],
    ['Retry with the same key?', retry]
  ]
}

function pageOf (code: ProblemCode, form: 'html' | 'text'): string {
  const { title, detail } = PROBLEMS[code]
  if (form === 'text') return `${code}: ${title}\n\n${detail}\n\n${factsOf(code).map(([what, text]) => `${what} ${text}\n`).join('')}`
  const facts = factsOf(code).map(([what, text]) => `<dt>${what}</dt><dd>${marked(text)}</dd>\n`).join('')
  return html(
    title,
    `<p><code>${code}</code></p>\n<p>${marked(detail)}</p>\n<dl>\n${facts}</dl>\n<p><a href="${PROBLEMS_PATH}">All problems</a></p>`
  )
}

function listOf (form: 'html' | 'text'): string {
  const codes = Object.keys(PROBLEMS).filter(isProblemCode)
  if (form === 'text') return codes.map((code) => `${code}: ${PROBLEMS[code].title}\n`).join('')
  return html('Problems of the gateway', `<ul>\n${codes.map((code) => `<li><a href="${PROBLEMS_PATH}/${code}"><code>${code}</code></a>: ${marked(PROBLEMS[code].title)}</li>\n`).join('')}</ul>`)
}

function html (title: string, body: string): string {
  return `<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${marked(title)}</title></head>\n<body>\n<h1>${marked(title)}</h1>\n${body}\n</body>\n</html>\n`
}

function marked (text: string): string {
  const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
  return escaped.replaceAll(/`([^`]*)`/g, '<code>$1</code>')
}
