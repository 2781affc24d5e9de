'use client'
import { createClient } from '@eaas/sdk'
import { useState } from 'react'

const eaas = createClient({ baseUrl: '/api/eaas' })

export function Secret({ keyId }) {
  const [text, setText] = useState('not yet')
  const run = async () => setText(await eaas.decryptText(await eaas.encrypt('sealed in the page', { keyId })))
  return (
    <button type="button" onClick={run}>
      {text}
    </button>
  )
}
