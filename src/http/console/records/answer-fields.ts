/** The fields in which an operator writes what the upstream answered, and how they are read. */
import type { OperatorProblem } from '../../../operator/shared/problem.ts'
import { div, fieldset, legend } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import { textArea, textField, tick, valuesOf } from '../shell/forms.ts'

const NAMES = ['status', 'retention'] as const
export const ANSWER_FIELDS = ['status', 'headers', 'body', 'statusOnly', 'unusual', 'retention'] as const

/** `isBulk`: one answer for many records, so none of it is required by the page. */
export function answerFields (form: URLSearchParams, problem: OperatorProblem | null, { isBulk = false } = {}): Child {
  const value = (name: string): string => form.get(name) ?? ''
  return fieldset({}, legend({}, 'The answer that the upstream gave'),
    div({ class: 'fields' },
      textField({
        name: 'status',
        label: 'Status',
        hint: 'Of the upstream’s answer, for example 201.',
        value: value('status'),
        problem,
        more: { inputmode: 'numeric', pattern: '[2-5][0-9][0-9]', required: !isBulk }
      }),
      textField({
        name: 'retention',
        label: 'Kept for',
        hint: 'Such as 24h or 7d. Empty: as the route says, and never shorter than now.',
        value: value('retention'),
        problem
      })),
    tick({
      name: 'statusOnly',
      label: 'Only the status is known',
      hint: 'Retries get 409 answer-not-kept, with this status as originalStatus.',
      more: { checked: form.has('statusOnly') }
    }),
    payloadFields(value, problem),
    isBulk || problem?.code === 'unusual-answer' || form.has('unusual')
      ? tick({
        name: 'unusual',
        label: 'Keep it although the route would not',
        hint: 'Only if you know better than the route.',
        more: { checked: form.has('unusual') }
      })
      : null)
}

function payloadFields (value: (name: string) => string, problem: OperatorProblem | null): Child {
  return [
    textArea({
      name: 'headers',
      label: 'Header fields',
      hint: 'One a line, for example “Content-Type: application/json”.',
      value: value('headers'),
      problem,
      more: { class: 'code', rows: 3, spellcheck: 'false' }
    }),
    textArea({
      name: 'body',
      label: 'Body',
      hint: 'Exactly as retries shall get it.',
      value: value('body'),
      problem,
      more: { class: 'code', spellcheck: 'false' }
    })
  ]
}

/** As the operation takes it. A line without a colon is a header without a value, which the operation refuses by name. */
export function answerOf (form: URLSearchParams): Record<string, unknown> {
  const headers = (form.get('headers') ?? '').split(/\r?\n/).filter((text) => text.trim() !== '').map((text) => {
    const at = text.indexOf(':')
    return at === -1 ? [text.trim(), ''] : [text.slice(0, at).trim(), text.slice(at + 1).trim()]
  })
  // Browsers send line ends as CR LF. What the operator typed has LF.
  const body = (form.get('body') ?? '').replaceAll('\r\n', '\n')
  return {
    ...valuesOf(form, NAMES),
    ...headers.length > 0 && { headers },
    ...body !== '' && { body },
    ...form.has('statusOnly') && { statusOnly: true },
    ...form.has('unusual') && { unusual: true }
  }
}
