"""Sends what it is told to, one JSON object a line, each in a thread of its own; ends when its input ends."""
import json
import sys
import threading

MODE = sys.argv[1]

if MODE.startswith('requests'):
    import requests

    def tuned():
        # begin requests
        import requests
        from requests.adapters import HTTPAdapter
        from urllib3.util import Retry
        retry = Retry(total=3, backoff_factor=0.5, allowed_methods=None, status_forcelist=[409, 429, 503], raise_on_status=False)
        api = requests.Session()
        api.mount('http://', HTTPAdapter(max_retries=retry))
        api.mount('https://', HTTPAdapter(max_retries=retry))
        # end requests
        return api

    def post(url, body, headers, timeout):
        api = tuned() if MODE == 'requests-retry' else requests.Session()
        return api.post(url, data=body, headers=headers, timeout=timeout)

    FAILED = requests.exceptions.RequestException
else:
    import httpx

    def post(url, body, headers, timeout):
        return httpx.post(url, content=body, headers=headers, timeout=timeout)

    FAILED = httpx.HTTPError

writing = threading.Lock()


def send(call):
    headers = {'Idempotency-Key': call['key'], 'Authorization': 'Bearer of-nobody', 'Content-Type': 'application/json'}
    try:
        answer = post(call['url'] + '/orders', json.dumps({'amount': call['amount']}), headers, call['timeoutMs'] / 1000)
        ending = {'status': answer.status_code, 'text': answer.text}
    except FAILED as error:
        ending = {'error': type(error).__name__}
    with writing:
        print(json.dumps({'number': call['number'], **ending}), flush=True)


for line in sys.stdin:
    threading.Thread(target=send, args=[json.loads(line)], daemon=True).start()
