/** What a page of the console is: its path, its role, and a function from a visit to what is shown. */
import type { AnswerOf, OperationName } from '../../../operator/operations.ts'
import type { OperatorContext } from '../../../operator/shared/operators.ts'
import type { Outcome } from '../../../operator/shared/problem.ts'
import type { Role } from '../../../core/operator/roles.ts'
import type { Operator } from '../../sign-in/authenticated.ts'
import type { Child } from './elements.ts'

/** One request of somebody who may see the page. */
export interface Visit {
  readonly operator: Operator
  readonly context: OperatorContext
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** Empty for GET. */
  readonly form: URLSearchParams
  /** Path and query. */
  readonly url: string
  readonly may: (role: Role) => boolean
  /** Runs an operation as the API does: the role, the shapes, the log. @throws as the store does */
  readonly ask: <Name extends OperationName>(name: Name, input?: Asked) => Promise<Outcome<AnswerOf<Name>>>
}

/** Not checked yet. Texts become numbers where the operation says so. */
export interface Asked {
  readonly params?: Readonly<Record<string, unknown>>
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: Readonly<Record<string, unknown>>
}

export interface Screen {
  readonly kind: 'screen'
  readonly title: string
  readonly content: Child
  readonly status?: number
  readonly retryAfterS?: number
}

export interface Download {
  readonly kind: 'download'
  readonly name: string
  readonly type: string
  readonly parts: AsyncIterable<string>
}

export type Shown = Screen | Download | { readonly kind: 'redirect', readonly to: string }

export interface Page {
  readonly method: 'GET' | 'POST'
  /** As the framework writes it: `/records/:id`. */
  readonly path: string
  readonly role: Role
  /** Of a form with an answer in it. Absent: a reason and some fields. */
  readonly bodyBytesMax?: number
  readonly run: (visit: Visit) => Promise<Shown>
}

/** An entry of the navigation with its pages. */
export interface Section {
  readonly name: string
  readonly path: string
  readonly pages: readonly Page[]
}

export function screen (title: string, content: Child, status = 200): Screen {
  return { kind: 'screen', title, content, status }
}

export function redirect (to: string): Shown {
  return { kind: 'redirect', to }
}
