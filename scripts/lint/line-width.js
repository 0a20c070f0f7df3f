/**
 * A line has at most `width` columns. A line may be longer only if it cannot be broken: if one literal (a string, a
 * template, a regular expression) or one URL of a comment leaves at most `rest` other columns, indentation aside.
 */
const WIDTH = 140
const REST = 40

const LITERALS = ['Literal', 'TemplateLiteral']
const URLS = /https?:\/\/\S+/g

export const lineWidth = {
  meta: {
    type: 'layout',
    docs: { description: 'Lines of at most 140 columns, save those that one literal fills' },
    schema: [{
      type: 'object',
      properties: { width: { type: 'integer' }, rest: { type: 'integer' } },
      additionalProperties: false
    }],
    messages: { long: 'This line has {{columns}} columns, {{width}} are the most: break it.' }
  },
  create (context) {
    const { width = WIDTH, rest = REST } = context.options[0] ?? {}
    const { lines, text } = context.sourceCode
    if (lines.every((line) => line.length <= width)) return {}

    /** Ranges of what cannot be broken. */
    const whole = Array.from(text.matchAll(URLS), ({ 0: url, index }) => [index, index + url.length])
    const note = (node) => { whole.push(node.range) }
    return {
      ...Object.fromEntries(LITERALS.map((kind) => [kind, note])),
      'Program:exit' () {
        for (const [index, line] of lines.entries()) {
          if (line.length <= width) continue
          const start = context.sourceCode.getIndexFromLoc({ line: index + 1, column: 0 })
          const end = start + line.length
          const longest = Math.max(0, ...whole.map(([from, to]) => Math.min(to, end) - Math.max(from, start)))
          if (line.trim().length - longest <= rest) continue
          context.report({
            loc: { start: { line: index + 1, column: width }, end: { line: index + 1, column: line.length } },
            messageId: 'long',
            data: { columns: line.length, width }
          })
        }
      }
    }
  }
}
