/** Judges payments by the upstream's tables and the clients' answers. Pure. */
import { judge } from './judge.ts'
import type { Verdict } from './judge.ts'

export interface Payment { readonly tenant: string, readonly reference: string, readonly amount: number }

export interface Books {
  /** Each payment that must exist once. */
  readonly expected: readonly Payment[]
  readonly payments: ReadonlyArray<Payment & { readonly id: string }>
  readonly balances: Readonly<Record<string, number>>
  /** Every final answer, with the number of a gateway's answers until then. */
  readonly told: ReadonlyArray<Payment & { readonly heard: number, readonly answer: { readonly id?: string } }>
}

export function judgePayments ({ expected, payments, balances, told }: Books, remarks: readonly string[]): Verdict {
  const ids = new Map(payments.map((payment) => [nameOf(payment), payment.id]))
  const untrue = told.filter((one) => one.answer.id === undefined || one.answer.id !== ids.get(nameOf(one)))
  const answered = new Set(told.map(nameOf))
  const silent = expected.filter((one) => !answered.has(nameOf(one)))
  const duplicates = told.reduce((sum, { heard }) => sum + heard, 0) - answered.size
  const verdict = judge(expected.map(nameOf), payments.map(nameOf), duplicates, remarks)
  return {
    ...verdict,
    wrong: [
      ...verdict.wrong,
      ...Object.entries(owedBy(expected)).flatMap(([tenant, owed]) =>
        balances[tenant] === owed ? [] : [`the balance of ${tenant} is ${balances[tenant]}, and should be ${owed}`]),
      ...untrue.length === 0 ? [] : [`${untrue.length} answers told of another payment than was made`],
      ...silent.length === 0 ? [] : [`${silent.length} payments were never answered`]
    ]
  }
}

function owedBy (payments: readonly Payment[]): Record<string, number> {
  const owed: Record<string, number> = {}
  for (const { tenant, amount } of payments) owed[tenant] = (owed[tenant] ?? 0) + amount
  return owed
}

function nameOf ({ tenant, reference }: Payment): string { return `${tenant}/${reference}` }
