// The cases of `@eaas/conformance`: what any server of the API must do, so the service of `/testing` too.
import { CLOSED_CASES } from '../../../packages/conformance/src/cases/answers.js'
import { type Case, nameOf } from '../../../packages/conformance/src/cases/case.js'
import { CASES } from '../../../packages/conformance/src/cases.js'
import { Skip } from '../../../packages/conformance/src/check.js'
import { createSession } from '../../../packages/conformance/src/session.js'
import { NOT_OF_THE_SDK } from '../../../packages/sdk/src/test-support/api-calls.js'
import type { ContractCase } from './contract-case.js'

/** The service of `/testing` stores lists of addresses and budgets, and does not enforce them (testing.md of the SDK). */
const isInMemory = ({ of, rule }: Case) =>
  !of.some((operation) => operation !== 'every call' && NOT_OF_THE_SDK.includes(operation)) &&
  !/E_IP_NOT_ALLOWED|E_BUDGET/.test(rule)

export const KIT_CASES: ContractCase[] = CASES.filter(isInMemory).map((one): ContractCase => {
  const isOpen = !CLOSED_CASES.includes(one)
  return {
    rule: nameOf(one),
    // A server of its own says that it is healthy: the logs of the cases before are ahead of the clock, which each case sets back.
    options: { serverMode: isOpen, ...(one.of.includes('getHealth') ? { destroyWindowDays: 29 } : {}) },
    async run({ service, pass }) {
      await one.run(createSession({ ...service, isOpen, wait: pass })).catch((error: unknown) => {
        if (!(error instanceof Skip)) throw error
      })
    },
  }
})
