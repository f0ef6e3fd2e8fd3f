/** The exact lines that connect an agent: run as they stand, they work. */

export type Connecting = { url: string; name: string; type: string; token: string; enrolment: boolean }
export type Lines = { id: string; label: string; about: string; text: string }

const quoted = (text: string) => JSON.stringify(text) // also how Python writes it
const shell = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

export function linesFor(agent: Connecting): Lines[] {
  return [
    { id: 'python', label: 'Python', about: 'After pip install ringfence:', text: python(agent) },
    { id: 'curl', label: 'curl', about: 'Or anything else that speaks HTTP:', text: curl(agent) },
    {
      id: 'environment',
      label: 'Environment',
      about: 'So that no token stands in your code:',
      text: environment(agent),
    },
  ]
}

function python({ url, name, type, token, enrolment }: Connecting): string {
  const given = `${enrolment ? 'enrolment' : 'token'}=${quoted(token)}`
  return `from ringfence import AgentClient

agent = AgentClient(${quoted(url)}, ${quoted(name)}, ${quoted(type)}, ${given})
${enrolment ? 'agent.register()\n' : ''}agent.heartbeat()
print(agent.list_projects())`
}

function curl({ url, name, type, token, enrolment }: Connecting): string {
  const as = `-H ${shell(`Authorization: Bearer ${token}`)}`
  if (!enrolment) return `curl -X POST ${as} ${shell(`${url}/api/v1/crew/${name}/heartbeat`)}`
  return `curl ${as} -d ${shell(JSON.stringify({ name, type }))} ${shell(`${url}/api/v1/crew`)}`
}

function environment({ url, name, type, token, enrolment }: Connecting): string {
  const client = `AgentClient(os.environ["RINGFENCE_URL"], ${quoted(name)}, ${quoted(type)})`
  const sign = enrolment ? 'register()' : 'heartbeat()'
  return `export RINGFENCE_URL=${shell(url)}
export ${enrolment ? 'RINGFENCE_ENROLMENT' : 'RINGFENCE_TOKEN'}=${shell(token)}
python3 -c ${shell(`import os; from ringfence import AgentClient; ${client}.${sign}`)}`
}
