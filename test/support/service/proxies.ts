// The recipes for haproxy and nginx of the guide on several processes, as whole configurations on ports of this machine.
import { blockOf } from '../sources/server-docs.js'

const GUIDE = 'several-processes.md'

/** @param ports those of the two servers, which replace the recipe's addresses */
export function haproxyConfig(port: number, ports: readonly (number | string)[]): string {
  const defaults = 'defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n'
  const frontend = `frontend in\n  bind 127.0.0.1:${port}\n  default_backend eaas\n`
  return defaults + frontend + recipe('backend eaas', ports)
}

/** @param folder for the files that nginx writes */
export function nginxConfig(port: number, ports: readonly (number | string)[], folder: string): string {
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const paths = kinds.map((name) => `${name}_temp_path ${folder}/${name};`).join('\n')
  const http = recipe('map ', ports).replace('server {\n', `server {\n  listen 127.0.0.1:${port};\n`)
  return `pid ${folder}/pid;\nevents {}\nhttp {\naccess_log off;\nerror_log /dev/null;\n${paths}\n${http}}\n`
}

function recipe(firstLine: string, ports: readonly (number | string)[]): string {
  const text = blockOf(GUIDE, firstLine)
  return text.replaceAll(/10\.0\.0\.([12]):8420/g, (_, number) => `127.0.0.1:${ports[number - 1]}`)
}
