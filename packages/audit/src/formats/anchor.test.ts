// Anchors, see anchor.md: those of another program, and what no reader may take for one.
import { decodeHex, encodeHex } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { anchorMetadata, readAnchorMetadata } from './anchor.js'
import vectors from './anchor.vectors.json' with { type: 'json' }

describe('the published anchors', () => {
  it.each(vectors.anchors)('cover these heads: $name', ({ heads, metadata }) => {
    const covered = heads.map(({ hash, ...head }) => ({ ...head, hash: decodeHex(hash) }))
    expect(JSON.stringify(anchorMetadata(covered))).toBe(metadata)
    const read = readAnchorMetadata(metadata)
    expect(read && { root: encodeHex(read.root), tenants: read.tenants }).toEqual(JSON.parse(metadata))
  })

  it.each(vectors.refuse)('are not this text: $name', ({ metadata }) => {
    expect(readAnchorMetadata(metadata)).toBeUndefined()
  })
})
