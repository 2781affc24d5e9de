import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { build } from 'esbuild'
import fastify from 'fastify'
import { describe, expect, it } from 'vitest'
import {
  AbortedError,
  ApiError,
  ContentError,
  DecryptionError,
  EaasBaseError,
  InvalidInputError,
  isEaasError,
  NetworkError,
  ProtocolError,
  RandomnessError,
  TimeoutError,
} from '../../../packages/sdk/src/index.js'

const answer = { httpStatus: 409, title: 'Conflict', detail: 'taken', problem: 'E_NAME_TAKEN', requestId: undefined }
const errors = [
  new InvalidInputError('wrong'),
  new ApiError('POST /v1/keys', answer, 'Do it.', false),
  new NetworkError('gone', 'look', true),
  new TimeoutError('late', 'wait', true),
  new AbortedError(AbortSignal.abort()),
  new ProtocolError('what', 200),
  new DecryptionError({ index: 3, field: 'phone' }),
  new ContentError('not text', 'use decrypt()'),
  new RandomnessError('none'),
]

describe('the errors', () => {
  it('have a code each, and no two the same', () => {
    expect(new Set(errors.map(({ code }) => code)).size).toBe(errors.length)
    for (const { code } of errors) expect(code).toMatch(/^E_[A-Z_]+$/)
  })

  it('have a message, a hint that is a sentence, a name, and whether to try again', () => {
    for (const error of errors) {
      expect(error).toBeInstanceOf(EaasBaseError)
      expect(error.name).toBe(error.constructor.name)
      expect(error.message).not.toBe('')
      expect(typeof error.retryable).toBe('boolean')
      expect(inspect(error)).toContain(error.code)
    }
    for (const error of errors.filter(({ code }) => !['E_NETWORK', 'E_TIMEOUT', 'E_CONTENT'].includes(code))) {
      expect(error.hint).toMatch(/^[A-Z].*\.$/)
    }
  })

  // Fastify, Express and h3 answer with the `statusCode` or `status` of what a handler throws.
  it.each(errors.map((error) => [error.name, error] as const))(
    'give a web framework no status: %s',
    async (_, error) => {
      const app = fastify()
      app.get('/', async () => {
        throw error
      })
      expect((await app.inject('/')).statusCode).toBe(500)
      expect(['status' in error, 'statusCode' in error]).toEqual([false, false])
    },
  )

  it('keep their names when a bundler renames their classes', async () => {
    const entry = fileURLToPath(new URL('../../../packages/sdk/src/errors.ts', import.meta.url))
    const { outputFiles } = await build({
      entryPoints: [entry],
      bundle: true,
      minify: true,
      format: 'esm',
      write: false,
    })
    const minified = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0]?.text ?? '')}`)
    for (const name of ['NetworkError', 'DecryptionError', 'InvalidInputError']) {
      expect(minified[name].name).not.toBe(name)
      expect(new minified[name]().name).toBe(name)
    }
  })

  it('are told from all others, also when another copy of the package threw them', () => {
    for (const error of errors) expect(isEaasError(error)).toBe(true)
    class Foreign extends Error {
      get [Symbol.for('eaas.error')]() {
        return true
      }
    }
    expect(isEaasError(new Foreign())).toBe(true)
    for (const other of [
      new Error('x'),
      undefined,
      null,
      'E_API',
      { code: 'E_API' },
      { [Symbol.for('eaas.error')]: true },
    ]) {
      expect(isEaasError(other)).toBe(false)
    }
  })

  it('name the record and the field, where there is one', () => {
    const error = new DecryptionError({ index: 3, field: 'phone' })
    expect(error.place).toEqual({ index: 3, field: 'phone' })
    expect(error.message).toBe(
      'record 3, field "phone": could not decrypt: altered, moved, or encrypted under another key',
    )
    expect('place' in new DecryptionError()).toBe(false)
  })

  it('narrow by their code in TypeScript', () => {
    const error: unknown = errors[1]
    if (!isEaasError(error) || error.code !== 'E_API') return expect.unreachable()
    const status: number = error.httpStatus
    expect(status).toBe(409)
  })
})
