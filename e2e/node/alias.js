// MQTT.js with topic aliases both ways, as a user would write it: subscribes below TOPIC, publishes COUNT messages in turn
// on TOPIC/a and TOPIC/b, and prints "topic payload" for each that comes back.
//
// usage: node alias.js HOST:PORT CLIENT-ID TOPIC COUNT
'use strict'

const mqtt = require('mqtt')

const [addr, clientId, topic, count] = process.argv.slice(2)
const timer = setTimeout(() => fail('timeout'), 20000)

function fail (why) {
  console.error(String(why))
  process.exit(1)
}

async function main () {
  const client = mqtt.connect('mqtt://' + addr, {
    protocolVersion: 5, clientId, reconnectPeriod: 0, autoAssignTopicAlias: true, properties: { topicAliasMaximum: 5 }
  })
  client.on('error', fail)
  let left = Number(count)
  const received = new Promise(resolve => {
    client.on('message', (t, payload) => {
      console.log(t, payload.toString())
      if (--left === 0) resolve()
    })
  })
  await new Promise(resolve => client.once('connect', resolve))
  await client.subscribeAsync(topic + '/#', { qos: 1 })
  for (let i = 0; i < count; i++) await client.publishAsync(topic + (i % 2 ? '/b' : '/a'), String(i), { qos: 1 })
  await received
  await client.endAsync()
  clearTimeout(timer)
}

main().catch(fail)
