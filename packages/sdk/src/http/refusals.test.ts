import { describe, expect, it } from 'vitest'
import { apiHint } from './refusals.js'

describe('the hint of a refusal', () => {
  it.each<[number, string, RegExp]>([
    [400, 'E_VALIDATION', /detail/],
    [401, 'E_UNAUTHORIZED', /API key.*log in/],
    [403, 'E_MISSING_PERMISSION', /permissions/],
    [403, 'E_TENANT_SUSPENDED', /operator.* resume/],
    [421, 'E_TENANT_MOVED', /base URL to the new address/],
    [403, 'E_IP_NOT_ALLOWED', /address.* list/],
    [403, 'E_NOT_ALLOWED', /broker/],
    [403, 'E_CROSS_SITE', /broker/],
    [403, 'E_WRAPPED_KEY', /backup/],
    [404, 'E_NOT_FOUND', /id/],
    [404, 'E_ROUTE_NOT_FOUND', /base URL: .* no \/v1/],
    [409, 'E_STATE', /status of the key/],
    [409, 'E_KEY_DESTROYED', /deleted/],
    [409, 'E_VERSION_DESTROYED', /deleted/],
    [409, 'E_VERSION_TOO_OLD', /Lower min_unwrap_version/],
    [409, 'E_NAME_TAKEN', /another name/],
    [413, 'E_BODY_TOO_LARGE', /less/],
    [429, 'E_QUOTA_EXCEEDED', /month/],
    [429, 'E_TOO_MANY_CALLS', /minute/],
    [503, 'E_UNAVAILABLE', /later/],
  ])('says what to do: %d %s', (httpStatus, problem, expected) => {
    const hint = apiHint({ httpStatus, problem })
    expect(hint).toMatch(expected)
    expect(hint).toMatch(/^[A-Z].*\.$/)
  })
})
