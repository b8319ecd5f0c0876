/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base classes of Vcq, Local, Remote and MrqNotice, with the calls of every communication: put,
 * get and the polls. By cffi a put and a poll take three times as long, as Python then reads and
 * converts each number by itself. Every call of the library is made without Python's lock.
 *
 * What is not done here is done in Python, by the functions that set_hooks() has been given: they
 * raise the exceptions.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include <utofu.h>
#include <utofu_ext.h>

enum { POLLS = 200 /* before a thread sleeps: some microseconds */ };

struct vcq {
    PyObject ob_base;
    unsigned long long hdl;   /* 0: closed */
    unsigned long long asked; /* local MRQ notices that were asked for and have not been polled */
};

struct local {
    PyObject ob_base;
    unsigned long long hdl; /* of the VCQ; 0: closed */
    unsigned long long stadd, size;
};

struct remote {
    PyObject ob_base;
    unsigned long long peer, stadd, size;
};

struct notice {
    PyObject ob_base;
    struct utofu_mrq_notice of_c;
};

static PyTypeObject *vcq_type, *local_type, *remote_type, *flags_type;

/* refuse_pair(vcq, lcl, rmt), raise_error(code, call), raise_tcq(code, cbdata), raise_mrq(code,
 * notice), MrqNotice, tuple(MrqType), OnesidedFlag, check_flags(flags, OnesidedFlag) */
static PyObject *refuse_pair, *raise_error, *raise_tcq, *raise_mrq, *notice_class, *notice_types,
    *check_flags;

/* As Py_RETURN_NONE, which cppcheck does not know. */
static PyObject *give_none(void)
{
    Py_INCREF(Py_None);
    return Py_None;
}

/* Each raises; a hook that does not is an error of the package. */
static PyObject *call_hook(PyObject *result)
{
    if (result != NULL) {
        Py_DECREF(result);
        PyErr_SetString(PyExc_SystemError, "utofu: an exception was expected");
    }
    return NULL;
}

static PyObject *fail_call(int rc, const char *call)
{
    return call_hook(PyObject_CallFunction(raise_error, "is", rc, call));
}

/* Whole numbers of any kind, NumPy's too. */
static int take_number(PyObject *object, uint64_t *number)
{
    PyObject *whole;

    if (object == NULL) /* left out */
        return 0;
    whole = PyNumber_Index(object);
    if (whole == NULL)
        return -1;
    *number = PyLong_AsUnsignedLongLong(whole);
    Py_DECREF(whole);
    return PyErr_Occurred() ? -1 : 0;
}

/* Flags of another group have the values of other flags: check_flags() raises TypeError. */
static int take_flags(PyObject *object, uint64_t *flags)
{
    if (object != NULL && Py_TYPE(object) != flags_type && !PyLong_CheckExact(object)) {
        PyObject *none = PyObject_CallFunctionObjArgs(check_flags, object, flags_type, NULL);

        if (none == NULL)
            return -1;
        Py_DECREF(none);
    }
    return take_number(object, flags);
}

/*
 * Arguments
 */

enum { LCL, RMT, EDATA, FLAGS, CBDATA, NUM_ARGUMENTS };
static const char *const argument_names[] = {"lcl", "rmt", "edata", "flags", "cbdata"};

static int find_argument(PyObject *name)
{
    for (int i = 0; i < NUM_ARGUMENTS; i++)
        if (PyUnicode_CompareWithASCIIString(name, argument_names[i]) == 0)
            return i;
    return -1;
}

/* Sorts positional arguments and those by keyword. */
static int sort_arguments(PyObject *const *given, Py_ssize_t positional, PyObject *keywords,
                          const char *call, PyObject *sorted[])
{
    Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;

    if (positional > NUM_ARGUMENTS) {
        PyErr_Format(PyExc_TypeError, "%s() takes %d arguments, not %zd", call, NUM_ARGUMENTS,
                     positional);
        return -1;
    }
    for (Py_ssize_t i = 0; i < positional; i++)
        sorted[i] = given[i];
    for (Py_ssize_t i = 0; i < named; i++) {
        int at = find_argument(PyTuple_GET_ITEM(keywords, i));

        if (at < 0 || sorted[at] != NULL) {
            PyErr_Format(PyExc_TypeError, "%s() %s %R", call,
                         at < 0 ? "has no argument" : "was given twice the argument",
                         PyTuple_GET_ITEM(keywords, i));
            return -1;
        }
        sorted[at] = given[positional + i];
    }
    return 0;
}

static int check_types(PyObject *const sorted[], const char *call)
{
    if (sorted[LCL] == NULL || !PyObject_TypeCheck(sorted[LCL], local_type) ||
        sorted[RMT] == NULL || !PyObject_TypeCheck(sorted[RMT], remote_type)) {
        PyErr_Format(PyExc_TypeError,
                     "%s() takes memory that is registered here (Memory, or a part of it), and "
                     "memory of a peer (Remote)",
                     call);
        return -1;
    }
    return 0;
}

typedef int start_function(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t rmt_vcq_id,
                           utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd, size_t length,
                           uint64_t edata, unsigned long int flags, void *cbdata);

/* call: "utofu_put" */
static PyObject *start_transfer(PyObject *self, PyObject *const *given, Py_ssize_t positional,
                                PyObject *keywords, start_function *start, const char *call)
{
    PyObject *sorted[NUM_ARGUMENTS] = {NULL};
    uint64_t edata = 0, flags = 0, cbdata = 0;
    int rc;

    if (sort_arguments(given, positional, keywords, call, sorted) != 0 ||
        check_types(sorted, call) != 0 || take_number(sorted[EDATA], &edata) != 0 ||
        take_flags(sorted[FLAGS], &flags) != 0 || take_number(sorted[CBDATA], &cbdata) != 0)
        return NULL;
    /* copied, as another thread may close the memory meanwhile */
    struct local lcl = *(struct local *)sorted[LCL];
    struct remote rmt = *(struct remote *)sorted[RMT];
    utofu_vcq_hdl_t hdl = ((struct vcq *)self)->hdl;
    if (lcl.size != rmt.size || lcl.hdl != hdl)
        return call_hook(
            PyObject_CallFunctionObjArgs(refuse_pair, self, sorted[LCL], sorted[RMT], NULL));
    PyThreadState *state = PyEval_SaveThread();
    rc = start(hdl, rmt.peer, lcl.stadd, rmt.stadd, lcl.size, edata, flags,
               (void *)(uintptr_t)cbdata);
    PyEval_RestoreThread(state);
    if (rc != UTOFU_SUCCESS)
        return fail_call(rc, call);
    if (flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        ((struct vcq *)self)->asked++;
    return give_none();
}

static PyObject *vcq_put(PyObject *self, PyObject *const *given, Py_ssize_t positional,
                         PyObject *keywords)
{
    return start_transfer(self, given, positional, keywords, utofu_put, "utofu_put");
}

static PyObject *vcq_get(PyObject *self, PyObject *const *given, Py_ssize_t positional,
                         PyObject *keywords)
{
    return start_transfer(self, given, positional, keywords, utofu_get, "utofu_get");
}

/*
 * Polls
 */

/* What poll_tcq() returns, or raises. */
static PyObject *give_tcq(int rc, void *cbdata)
{
    unsigned long long number = (uintptr_t)cbdata;

    if (rc == UTOFU_ERR_NOT_FOUND)
        return give_none();
    if (rc != UTOFU_SUCCESS)
        return call_hook(PyObject_CallFunction(raise_tcq, "iK", rc, number));
    return PyLong_FromUnsignedLongLong(number);
}

static PyObject *make_notice(const struct utofu_mrq_notice *found)
{
    PyTypeObject *type = (PyTypeObject *)notice_class;
    struct notice *notice = (struct notice *)type->tp_alloc(type, 0);

    if (notice != NULL)
        notice->of_c = *found;
    return (PyObject *)notice;
}

static bool is_local(const struct utofu_mrq_notice *notice)
{
    return notice->notice_type == UTOFU_MRQ_TYPE_LCL_PUT ||
           notice->notice_type == UTOFU_MRQ_TYPE_LCL_GET ||
           notice->notice_type == UTOFU_MRQ_TYPE_LCL_ARMW;
}

/* What poll_mrq() returns, or raises. */
static PyObject *give_mrq(PyObject *self, int rc, const struct utofu_mrq_notice *found)
{
    struct vcq *vcq = (struct vcq *)self;

    if (rc == UTOFU_ERR_NOT_FOUND)
        return give_none();
    if (is_local(found) && vcq->asked > 0)
        vcq->asked--;
    PyObject *notice = make_notice(found);
    if (notice == NULL || rc == UTOFU_SUCCESS)
        return notice;
    call_hook(PyObject_CallFunction(raise_mrq, "iO", rc, notice));
    Py_DECREF(notice);
    return NULL;
}

static PyObject *vcq_poll_tcq(PyObject *self, PyObject *ignored)
{
    utofu_vcq_hdl_t hdl = ((struct vcq *)self)->hdl;
    void *cbdata = NULL;
    int rc;

    (void)ignored;
    PyThreadState *state = PyEval_SaveThread();
    rc = utofu_poll_tcq(hdl, 0, &cbdata);
    PyEval_RestoreThread(state);
    return give_tcq(rc, cbdata);
}

static PyObject *vcq_poll_mrq(PyObject *self, PyObject *ignored)
{
    utofu_vcq_hdl_t hdl = ((struct vcq *)self)->hdl;
    struct utofu_mrq_notice notice = {.notice_type = UTOFU_MRQ_TYPE_LCL_PUT};
    int rc;

    (void)ignored;
    PyThreadState *state = PyEval_SaveThread();
    rc = utofu_poll_mrq(hdl, 0, &notice);
    PyEval_RestoreThread(state);
    return give_mrq(self, rc, &notice);
}

/* Sleeps until the VCQ has something to poll. An entry of the other queue, which the caller does
 * not poll, ends each wait at once: the processor is left to others. */
static int sleep_for_vcq(utofu_vcq_hdl_t hdl, long long timeout_us)
{
    int rc = utofu_wait_vcqs(&hdl, 1, timeout_us);

    if (rc == UTOFU_SUCCESS)
        sched_yield();
    return rc == UTOFU_SUCCESS ? UTOFU_ERR_NOT_FOUND : rc;
}

/* Polls some times, as an answer may come soon, and then sleeps: as poll_tcq(), None: call it
 * again. */
static PyObject *vcq_wait_tcq(PyObject *self, PyObject *timeout_us)
{
    utofu_vcq_hdl_t hdl = ((struct vcq *)self)->hdl;
    long long timeout = PyLong_AsLongLong(timeout_us);
    void *cbdata = NULL;
    int rc = UTOFU_ERR_NOT_FOUND;

    if (PyErr_Occurred())
        return NULL;
    PyThreadState *state = PyEval_SaveThread();
    for (int i = 0; i < POLLS && rc == UTOFU_ERR_NOT_FOUND; i++)
        rc = utofu_poll_tcq(hdl, 0, &cbdata);
    if (rc == UTOFU_ERR_NOT_FOUND)
        rc = sleep_for_vcq(hdl, timeout);
    PyEval_RestoreThread(state);
    return give_tcq(rc, cbdata);
}

static PyObject *vcq_wait_mrq(PyObject *self, PyObject *timeout_us)
{
    utofu_vcq_hdl_t hdl = ((struct vcq *)self)->hdl;
    long long timeout = PyLong_AsLongLong(timeout_us);
    struct utofu_mrq_notice notice = {.notice_type = UTOFU_MRQ_TYPE_LCL_PUT};
    int rc = UTOFU_ERR_NOT_FOUND;

    if (PyErr_Occurred())
        return NULL;
    PyThreadState *state = PyEval_SaveThread();
    for (int i = 0; i < POLLS && rc == UTOFU_ERR_NOT_FOUND; i++)
        rc = utofu_poll_mrq(hdl, 0, &notice);
    if (rc == UTOFU_ERR_NOT_FOUND)
        rc = sleep_for_vcq(hdl, timeout);
    PyEval_RestoreThread(state);
    return give_mrq(self, rc, &notice);
}

/*
 * Classes
 */

/* Remote(peer, stadd, size): it does not change afterwards. */
static PyObject *new_remote(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char peer[] = "peer", stadd[] = "stadd", size[] = "size";
    static char *names[] = {peer, stadd, size, NULL};
    PyObject *given[3] = {NULL};
    uint64_t number[3] = {0};

    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OOO", names, &given[0], &given[1],
                                     &given[2]))
        return NULL;
    for (int i = 0; i < 3; i++)
        if (take_number(given[i], &number[i]) != 0)
            return NULL;
    struct remote *remote = (struct remote *)type->tp_alloc(type, 0);
    if (remote != NULL) {
        remote->peer = number[0];
        remote->stadd = number[1];
        remote->size = number[2];
    }
    return (PyObject *)remote;
}

/* MrqNotice(notice_type, vcq_id, edata, rmt_value, lcl_stadd, rmt_stadd) */
static PyObject *new_notice(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *given[6] = {NULL};
    uint64_t number[6] = {0};

    if (keywords != NULL && PyDict_GET_SIZE(keywords) > 0) {
        PyErr_SetString(PyExc_TypeError, "MrqNotice() takes no keywords");
        return NULL;
    }
    if (!PyArg_UnpackTuple(arguments, "MrqNotice", 6, 6, &given[0], &given[1], &given[2], &given[3],
                           &given[4], &given[5]))
        return NULL;
    for (int i = 0; i < 6; i++)
        if (take_number(given[i], &number[i]) != 0)
            return NULL;
    struct notice *notice = (struct notice *)type->tp_alloc(type, 0);
    if (notice != NULL)
        notice->of_c = (struct utofu_mrq_notice){.notice_type = (uint8_t)number[0],
                                                 .vcq_id = number[1],
                                                 .edata = number[2],
                                                 .rmt_value = number[3],
                                                 .lcl_stadd = number[4],
                                                 .rmt_stadd = number[5]};
    return (PyObject *)notice;
}

/* A member of MrqType; the number itself where it has no such member. */
static PyObject *get_notice_type(PyObject *self, void *ignored)
{
    Py_ssize_t type = ((struct notice *)self)->of_c.notice_type;

    (void)ignored;
    if (type >= PyTuple_GET_SIZE(notice_types))
        return PyLong_FromSsize_t(type);
    PyObject *member = PyTuple_GET_ITEM(notice_types, type);
    Py_INCREF(member);
    return member;
}

static void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef vcq_methods[] = {
    {"put", (PyCFunction)(void (*)(void))vcq_put, METH_FASTCALL | METH_KEYWORDS,
     "put(lcl, rmt, edata=0, flags=OnesidedFlag.NONE, cbdata=0)\n\n"
     "utofu_put: put memory of this process into memory of another"},
    {"get", (PyCFunction)(void (*)(void))vcq_get, METH_FASTCALL | METH_KEYWORDS,
     "get(lcl, rmt, edata=0, flags=OnesidedFlag.NONE, cbdata=0)\n\n"
     "utofu_get: get memory of another process into memory of this one"},
    {"poll_tcq", vcq_poll_tcq, METH_NOARGS,
     "utofu_poll_tcq: the callback data of the next entry of the TCQ, or None\n\n"
     "Raises TcqError for an entry of a communication that could not be sent."},
    {"poll_mrq", vcq_poll_mrq, METH_NOARGS,
     "utofu_poll_mrq: the next notice of the MRQ, or None\n\n"
     "Raises MrqError for the notice of a communication that failed."},
    {"_wait_tcq", vcq_wait_tcq, METH_O, NULL},
    {"_wait_mrq", vcq_wait_mrq, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef vcq_members[] = {
    {"hdl", T_ULONGLONG, offsetof(struct vcq, hdl), 0, "the handle; 0: closed"},
    {"_asked", T_ULONGLONG, offsetof(struct vcq, asked), 0, "local MRQ notices not polled yet"},
    {NULL, 0, 0, 0, NULL},
};
static PyMemberDef local_members[] = {
    {"hdl", T_ULONGLONG, offsetof(struct local, hdl), 0, "handle of the VCQ; 0: closed"},
    {"stadd", T_ULONGLONG, offsetof(struct local, stadd), 0, "the STADD"},
    {"size", T_ULONGLONG, offsetof(struct local, size), 0, "bytes"},
    {NULL, 0, 0, 0, NULL},
};
static PyMemberDef remote_members[] = {
    {"peer", T_ULONGLONG, offsetof(struct remote, peer), READONLY, "the id of the peer's VCQ"},
    {"stadd", T_ULONGLONG, offsetof(struct remote, stadd), READONLY, "the STADD"},
    {"size", T_ULONGLONG, offsetof(struct remote, size), READONLY, "bytes"},
    {NULL, 0, 0, 0, NULL},
};

#define NOTICE_FIELD(field, text)                                                                  \
    {                                                                                              \
#        field, T_ULONGLONG, offsetof(struct notice, of_c.field), READONLY, text                   \
    }
static PyMemberDef notice_members[] = {
    NOTICE_FIELD(vcq_id, "the peer"),
    NOTICE_FIELD(edata, "the EDATA given when the communication was started"),
    NOTICE_FIELD(rmt_value, "the remote word before the ARMW"),
    NOTICE_FIELD(lcl_stadd, "put, get: one past the last local byte"),
    NOTICE_FIELD(rmt_stadd, "put, get: one past the last remote byte; ARMW: the remote word"),
    {NULL, 0, 0, 0, NULL},
};
static PyGetSetDef notice_getters[] = {
    {"notice_type", get_notice_type, NULL, "a MrqType", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot vcq_slots[] = {{Py_tp_methods, vcq_methods},
                                  {Py_tp_members, vcq_members},
                                  {Py_tp_dealloc, (void *)free_object},
                                  {0, NULL}};
static PyType_Slot local_slots[] = {
    {Py_tp_members, local_members}, {Py_tp_dealloc, (void *)free_object}, {0, NULL}};
static PyType_Slot remote_slots[] = {{Py_tp_members, remote_members},
                                     {Py_tp_new, (void *)new_remote},
                                     {Py_tp_dealloc, (void *)free_object},
                                     {0, NULL}};
static PyType_Slot notice_slots[] = {{Py_tp_members, notice_members},
                                     {Py_tp_getset, notice_getters},
                                     {Py_tp_new, (void *)new_notice},
                                     {Py_tp_dealloc, (void *)free_object},
                                     {0, NULL}};
enum { CLASS_FLAGS = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE };
static PyType_Spec vcq_spec = {"utofu._fast.Vcq", sizeof(struct vcq), 0, CLASS_FLAGS, vcq_slots};
static PyType_Spec local_spec = {"utofu._fast.Local", sizeof(struct local), 0, CLASS_FLAGS,
                                 local_slots};
static PyType_Spec remote_spec = {"utofu._fast.Remote", sizeof(struct remote), 0, CLASS_FLAGS,
                                  remote_slots};
static PyType_Spec notice_spec = {"utofu._fast.MrqNotice", sizeof(struct notice), 0, CLASS_FLAGS,
                                  notice_slots};

/*
 * The module
 */

static PyObject *set_hooks(PyObject *self, PyObject *arguments)
{
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OOOOO!O!O!O", &refuse_pair, &raise_error, &raise_tcq,
                          &raise_mrq, &PyType_Type, &notice_class, &PyTuple_Type, &notice_types,
                          &PyType_Type, &flags_type, &check_flags))
        return NULL;
    /* the references stay for ever */
    Py_INCREF(arguments);
    return give_none();
}

/* In a child made by fork(), memory that was registered in the parent is not there, and is not to
 * be freed: an object is kept for ever, also at the end of the interpreter. */
static PyObject *keep_object(PyObject *self, PyObject *object)
{
    (void)self;
    Py_INCREF(object);
    return give_none();
}

static PyMethodDef functions[] = {
    {"set_hooks", set_hooks, METH_VARARGS, NULL},
    {"keep_object", keep_object, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "utofu._fast", NULL, -1, functions, NULL, NULL, NULL, NULL};

static PyTypeObject *add_class(PyObject *module, const char *name, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);

    if (type == NULL || PyModule_AddObject(module, name, type) != 0) {
        Py_XDECREF(type);
        return NULL;
    }
    Py_INCREF(type); /* of the variable */
    return (PyTypeObject *)type;
}

PyMODINIT_FUNC PyInit__fast(void);
PyMODINIT_FUNC PyInit__fast(void)
{
    PyObject *module = PyModule_Create(&definition);

    if (module == NULL)
        return NULL;
    vcq_type = add_class(module, "Vcq", &vcq_spec);
    local_type = add_class(module, "Local", &local_spec);
    remote_type = add_class(module, "Remote", &remote_spec);
    if (vcq_type == NULL || local_type == NULL || remote_type == NULL ||
        add_class(module, "MrqNotice", &notice_spec) == NULL) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
