/** What an operator is told instead of what was asked for (RFC 9457). A value, not an error. */

export const OPERATOR_PROBLEMS = {
  'bad-request': { status: 400, title: 'The request has a mistake' },
  'not-signed-in': { status: 401, title: 'Nobody is signed in' },
  forbidden: { status: 403, title: 'Your role may not do this' },
  'csrf-token': { status: 403, title: 'The change needs the CSRF token of this session' },
  'not-found': { status: 404, title: 'There is no such thing' },
  'method-not-allowed': { status: 405, title: 'This method is not for this resource' },
  changed: { status: 409, title: 'It has changed since it was shown' },
  refused: { status: 409, title: 'Its state does not allow this' },
  'too-early': { status: 409, title: 'It is too early for this' },
  'content-too-large': { status: 413, title: 'The body is too large' },
  'unsupported-media-type': { status: 415, title: 'The body is not of a media type that is taken here' },
  'unusual-answer': { status: 422, title: 'The route would not keep this answer' },
  'too-many': { status: 422, title: 'Too many match' },
  'token-invalid': { status: 422, title: 'The selection is not valid any more' },
  'too-many-requests': { status: 429, title: 'Too many requests' },
  'internal-error': { status: 500, title: 'This is a bug' },
  'store-unavailable': { status: 503, title: 'The store cannot be used now' }
} as const

export type OperatorProblemCode = keyof typeof OPERATOR_PROBLEMS

export type ProblemMembers = Readonly<Record<string, string | number | boolean | null | object>>

export class OperatorProblem {
  readonly code: OperatorProblemCode
  readonly detail: string
  /** Extension members, for example how the record is now. */
  readonly members: ProblemMembers

  constructor (code: OperatorProblemCode, detail: string, members: ProblemMembers = {}) {
    this.code = code
    this.detail = detail
    this.members = members
  }

  get status (): number { return OPERATOR_PROBLEMS[this.code].status }
}

/** Either what was asked for, or why not. */
export type Outcome<Value> = Value | OperatorProblem

export function badRequest (detail: string): OperatorProblem {
  return new OperatorProblem('bad-request', detail)
}
