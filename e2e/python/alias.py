"""paho-mqtt with a topic alias, as a user would write it: publishes COUNT messages on TOPIC, by name once and then by alias.

usage: alias.py HOST:PORT CLIENT-ID TOPIC COUNT
"""

import sys
import threading

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

addr, client_id, topic, count = sys.argv[1:5]
host, port = addr.split(":")
connected = threading.Event()
client = mqtt.Client(client_id, protocol=mqtt.MQTTv5)
client.on_connect = lambda *args: connected.set()
client.connect(host, int(port))
client.loop_start()
if not connected.wait(20):
    sys.exit("timeout: CONNACK")
for i in range(int(count)):
    properties = Properties(PacketTypes.PUBLISH)
    properties.TopicAlias = 3
    info = client.publish("" if i else topic, str(i), qos=1, properties=properties)
    info.wait_for_publish(20)
    if not info.is_published():
        sys.exit("timeout: PUBACK")
client.disconnect()
client.loop_stop()
